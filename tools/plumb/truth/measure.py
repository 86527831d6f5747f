"""Edits the synthetic workspace step by step, and compares plumb's answers with what Bazel runs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from tools.plumb import bazel, graph
from tools.plumb.compare import affected
from tools.plumb.compare.affected import Comparison
from tools.plumb.pair import load_both
from tools.plumb.precise.narrow import Side, narrow
from tools.plumb.revision import Loader, Revision
from tools.plumb.steering.inputs import is_build_file
from tools.plumb.trees.git import Repository
from tools.plumb.truth.edits.catalogue import BEYOND_THE_GRAPH, DEMANDED, KINDS
from tools.plumb.truth.model import Model, build

# Every so many steps, that many edits at once.
_COMBINED = 5


@dataclass(frozen=True)
class Step:
    """One change: its kinds, the tests that Bazel ran, and those that each method named.

    precise: those of plumb --precise, None if it was not asked.
    """

    kinds: tuple[str, ...]
    executed: frozenset[str]
    plumb: frozenset[str]
    rdeps: frozenset[str]
    precise: frozenset[str] | None = None

    @property
    def is_demanded(self) -> bool:
        """True if plumb is asked to name tests that Bazel does not run again."""
        return any(kind in DEMANDED for kind in self.kinds)

    @property
    def is_beyond_the_graph(self) -> bool:
        """True if the target graph alone cannot tell which tests Bazel runs again."""
        return any(kind in BEYOND_THE_GRAPH for kind in self.kinds)


class Bench:
    """A synthetic workspace in git, with a plumb and a Bazel of its own."""

    def __init__(self, folder: Path, entry: Path, seed: int, *, precise: bool = False) -> None:
        """folder: an empty one. entry: the Bazel to run, as an absolute path.

        precise: asks plumb --precise too.
        """
        self._precise = precise
        self.root, self._caches = folder / "workspace", folder / "caches"
        self._caches.mkdir(parents=True)
        self._wrapper = folder / "bazel"
        own = f"--output_user_root='{folder}/servers'"
        self._wrapper.write_text(f"#!/bin/sh\nexec '{entry}' {own} \"$@\"\n")
        self._wrapper.chmod(0o755)
        os.environ[bazel.ENTRY_VARIABLE] = str(self._wrapper)
        self._chance = Random(seed)
        self._model: Model = build(seed)
        self._model.write(self.root)
        self._git("init", "--quiet", ".")
        self._commit()
        repository = Repository.find(self.root)
        # As in a large workspace: attributes that nobody gave a value are read where it matters.
        self._loader = Loader(repository, self.root, self._caches / "plumb", lambda text: None, 0)
        (self._caches / "plumb").mkdir()
        self.all_tests = frozenset(self._executed())

    def steps(self, count: int) -> Iterator[Step]:
        """Applies `count` changes, one after the other; every kind comes up as often as others."""
        kinds: list[str] = []
        for number in range(count):
            size = 3 if number % _COMBINED == _COMBINED - 1 else 1
            if len(kinds) < size:
                kinds += self._chance.sample(sorted(KINDS), len(KINDS))
            yield self._step(tuple(kinds.pop() for _ in range(size)))

    def _step(self, kinds: tuple[str, ...]) -> Step:
        for kind in kinds:
            KINDS[kind](self._model, self._chance)
        self._model.write(self.root)
        repository = self._loader.repository
        base = repository.tree_of("HEAD")
        with repository.working_tree(self._loader.folder / "scratch") as head:
            older, newer, no_base = load_both(self._loader, base, head)
            comparison = affected.compare(older, newer, no_base, manual=False)
            assert older is not None
            precise = self._narrowed(comparison, older, newer) if self._precise else None
        plain = _rdeps(newer, comparison.changed)
        step = Step(kinds, frozenset(self._executed()), _labels(comparison), plain, precise)
        self._commit()
        return step

    def _narrowed(self, comparison: Comparison, older: Revision, newer: Revision) -> frozenset[str]:
        base, head = (
            Side(revision, partial(self._loader.exported, revision.tree), "")
            for revision in (older, newer)
        )
        return _labels(narrow(comparison, base, head, self._loader.notify))

    def _executed(self) -> set[str]:
        events = self._caches / "events.json"
        options = [f"--build_event_json_file={events}", "--curses=no", "--noshow_progress"]
        command = [str(self._wrapper), f"--output_base={self._caches / 'truth'}", "test", *options]
        result = subprocess.run(
            [*command, "//..."], cwd=self.root, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        found = set()
        for line in events.read_text().splitlines():
            event = json.loads(line)
            if "testResult" in event and not event["testResult"].get("cachedLocally"):
                found.add(graph.canonical(event["id"]["testResult"]["label"]))
        return found

    def _commit(self) -> None:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "--message=x")

    def _git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
        subprocess.run(
            ["git", *identity, *arguments], cwd=self.root, check=True, capture_output=True
        )

    def close(self) -> None:
        """Ends the Bazel servers that were started here."""
        plumb = self._caches / "plumb"
        for base in (self._caches / "truth", plumb / "output_base", plumb / "export/output_base"):
            command = [str(self._wrapper), f"--output_base={base}", "shutdown"]
            subprocess.run(command, cwd=self.root, capture_output=True, check=False)


def _labels(comparison: Comparison) -> frozenset[str]:
    return frozenset(test.label for test in comparison.tests)


def _rdeps(head: Revision, changed: list[str]) -> frozenset[str]:
    """Tests that `bazel query rdeps(//..., set(FILES))` finds for the changed files.

    A BUILD file stands for the targets of its package, since no target depends on it.
    """
    targets = head.graph.targets
    users: dict[str, list[str]] = {}
    for label, target in targets.items():
        for dep in target.deps:
            users.setdefault(dep, []).append(label)
    packages = {f"//{path.rpartition('/')[0]}" for path in changed if is_build_file(path)}
    files = {path for path in changed if not is_build_file(path)}
    todo = [
        label
        for label, target in targets.items()
        if label.partition(":")[0] in packages
        or (target.kind == graph.SOURCE and graph.source_path(label) in files)
    ]
    found: set[str] = set()
    while todo:
        label = todo.pop()
        if label not in found:
            found.add(label)
            todo += users.get(label, [])
    return frozenset(test.label for test in head.graph.tests_of_all() if test.label in found)
