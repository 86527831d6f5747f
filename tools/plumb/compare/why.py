"""Traces a changed target back to the nearest input that differs between the revisions."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tools.plumb import graph
from tools.plumb.compare.digest import Digests
from tools.plumb.compare.seeds import differing


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


@dataclass
class Tracer:
    """The two revisions side by side, and how far from what differs each changed target is."""

    base: Digests
    head: Digests
    _below: dict[str, str | None] | None = field(default=None, init=False, repr=False)
    _outside: dict[str, str | None] | None = field(default=None, init=False, repr=False)
    _starts: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def changed(self, label: str) -> bool:
        """True if the target or anything below it differs, or only one revision has it."""
        return label in self.all_changed()

    def all_changed(self) -> Set[str]:
        """The labels that have changed, as `changed` says of one."""
        return self._nearest().keys()

    def start(self, label: str) -> str:
        """Where the chain of `label` starts, which must have changed."""
        passed = []
        nearest = self._nearest()
        while label not in self._starts:
            passed.append(label)
            below = nearest[label]
            if below is None:
                self._starts[label] = label
            else:
                label = below
        start = self._starts[label]
        self._starts.update(dict.fromkeys(passed, start))
        return start

    def chain(self, label: str) -> Chain:
        """The shortest chain from an input that differs to `label`, which must have changed."""
        labels = [label]
        while (below := self._nearest().get(labels[0])) is not None:
            labels.insert(0, below)
        return self._chain(labels)

    def _nearest(self) -> dict[str, str | None]:
        """Each changed label to its first dep that is nearest to what differs.

        None for what differs by itself.
        """
        if self._below is None:
            self._below = self._reached(differing(self.base, self.head))
        return self._below

    def reaches_outside(self, label: str) -> bool:
        """True if something of another repository that differs, such as a wheel, is below it."""
        if self._outside is None:
            starts = {start for start, below in self._nearest().items() if below is None}
            self._outside = self._reached(start for start in starts if start.startswith("@"))
        return label in self._outside

    def _reached(self, starts: Iterable[str]) -> dict[str, str | None]:
        """`starts` and all that depends on them, each with the dep by which a shortest way goes."""
        layer = sorted(starts)
        known: dict[str, str | None] = dict.fromkeys(layer)
        while layer:
            # Of the deps that are as near, the first by label is taken.
            layer = sorted(self._spread(layer, known))
        return known

    def _spread(self, layer: list[str], known: dict[str, str | None]) -> list[str]:
        """Notes the users of `layer` that are not known yet, and returns them."""
        head, index, narrowed = self.head, self.head.graph.index, self._narrowed
        found = []
        for label in layer:
            for user in (*index.users(label), *head.flag_users.get(label, ())):
                if user in known:
                    continue
                if user not in narrowed or label in head.deps(user):
                    known[user] = label
                    found.append(user)
        return found

    @cached_property
    def _narrowed(self) -> frozenset[str]:
        """Targets that may not need all of their deps."""
        selecting = self.head.graph.index.with_trait(graph.SELECTS)
        return frozenset((*selecting, *self.head.options))

    def _chain(self, labels: list[str]) -> Chain:
        start = labels[0]
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
