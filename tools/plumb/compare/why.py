"""Traces a changed target back to the nearest input that differs between the revisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tools.plumb import graph
from tools.plumb.compare.digest import Digests


@dataclass(frozen=True)
class Change:
    """A part of a target that differs. old or new is None if that side lacks it."""

    name: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Chain:
    """labels: from the changed target to the one asked for; file: the changed source, if one.

    new: the base has no such target; of its attributes only the deps are in changes.
    """

    labels: list[str]
    file: str | None
    changes: list[Change]
    new: bool = False


def telling(changes: Iterable[Change]) -> list[Change]:
    """The changes without attributes that Bazel adds by itself, unless no other differs."""
    found = list(changes)
    return [change for change in found if not change.name.startswith(("$", ":"))] or found


@dataclass(frozen=True)
class Tracer:
    """The two revisions' digests, side by side."""

    base: Digests
    head: Digests

    def changed(self, label: str) -> bool:
        """True if the target or anything below it differs, or only one revision has it."""
        if self.base.knows(label) != self.head.knows(label):
            return True
        return self.base.whole(label) != self.head.whole(label)

    def chain(self, label: str) -> Chain:
        """The shortest chain from an input that differs to `label`, which must have changed."""
        users: dict[str, str | None] = {label: None}
        todo = deque([label])
        while todo:
            here = todo.popleft()
            if self._starts(here):
                return self._chain_from(here, users)
            for dep in self.head.deps(here):
                if dep not in users and self.changed(dep):
                    users[dep] = here
                    todo.append(dep)
        return Chain([label], None, [])

    def _starts(self, label: str) -> bool:
        return self.base.knows(label) != self.head.knows(label) or self.base.own(
            label
        ) != self.head.own(label)

    def _chain_from(self, start: str, users: dict[str, str | None]) -> Chain:
        labels = [start]
        while (user := users[labels[-1]]) is not None:
            labels.append(user)
        target = self.head.graph.targets.get(start)
        is_file = not start.startswith("@") and (target is None or target.kind == graph.SOURCE)
        file = self._changed_file(graph.source_path(start) or "") if is_file else None
        new = target is not None and not self.base.knows(start)
        return Chain(labels, file, self._changes(start), new)

    def _changed_file(self, path: str) -> str:
        """`path`, or the first changed file in it if it is a folder."""
        old, new = self.base.files, self.head.files
        outside = new.outside(path)
        if outside is not None and old.identity(path) == new.identity(path):
            return outside
        folder = new.resolve(path)
        if folder is None or not new.is_folder(folder):
            return path
        inside = sorted({*new.below(folder), *old.below(folder)})
        return next((p for p in inside if old.identity(p) != new.identity(p)), path)

    def _changes(self, label: str) -> list[Change]:
        old = self.base.parts(label) if self.base.knows(label) else {}
        new = self.head.parts(label) if self.head.knows(label) else {}
        if not old and "rule class" in new:
            # All of it is new; only what it depends on may surprise.
            new = {"deps": new.get("deps")}
        return [
            Change(name, old.get(name), new.get(name))
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        ]
