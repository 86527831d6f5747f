"""Where two revisions differ, target by target: what each is by itself, and what it depends on.

Most targets of a large graph are the same on both sides. Of these nothing is decoded or digested:
Bazel said the same of them, and what else can make a difference is looked at for all at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tools.plumb import graph
from tools.plumb.compare.digest import GRAPH_READERS, Digests
from tools.plumb.graph import DEFINED, DEFINITION, RULE, SELECTS, SOURCE, Target
from tools.plumb.steering.inputs import is_loaded_file
from tools.plumb.trees.files import SYMLINK, changed_paths

# Rules that decide select()s, beside flags.
_DECIDING = ("config_setting", "alias")


def differing(base: Digests, head: Digests) -> set[str]:
    """Labels that differ by themselves, in their direct deps, or that only one revision has."""
    old, new = base.graph.targets, head.graph.targets
    found = {label for label in old.keys() ^ new.keys() if base.knows(label) != head.knows(label)}
    leaves = base.graph.leaves | head.graph.leaves | base.flag_users.keys() | head.flag_users.keys()
    leaves = leaves - old.keys() - new.keys()
    suspects = [*leaves, *_suspects(base, head)]
    return found | {label for label in suspects if _differs(base, head, label)}


def _differs(base: Digests, head: Digests, label: str) -> bool:
    return base.own(label) != head.own(label) or base.deps(label) != head.deps(label)


def _suspects(base: Digests, head: Digests) -> Iterator[str]:
    """Targets of both revisions that have to be looked at one by one."""
    old, new = base.graph.targets, head.graph.targets
    context = _Context(base, head)
    if context.is_calm:
        sources = (label for label, target in new.items() if target.kind == SOURCE)
        yield from (label for label in sources if not _same_file(base, head, label))
        return
    for label, target in new.items():
        before = old.get(label)
        if before is None:
            continue
        if target.kind == SOURCE and before.kind == SOURCE:
            if not _same_file(base, head, label):
                yield label
        elif not target.same_as(before) or (target.kind == RULE and context.reaches(target)):
            yield label


def _same_file(base: Digests, head: Digests, label: str) -> bool:
    """True if it is a plain file, the same in both; a link or a folder takes a closer look."""
    path = graph.source_path(label) or ""
    entry = head.files.entries.get(path)
    return entry is not None and entry == base.files.entries.get(path) and entry.mode != SYMLINK


class _Context:
    """What can make a rule differ of which Bazel said the same on both sides."""

    def __init__(self, base: Digests, head: Digests) -> None:
        self._sides = base, head
        self._same_graph = base.graph is head.graph
        self._packages = base.packages.keys() | head.packages.keys()
        self._flags = {
            name for name in base.options.keys() | head.options.keys() if name.startswith("/")
        }
        # One graph read from the same BUILD and .bzl files, under the same options.
        self.is_calm = (
            self._same_graph
            and not self._packages
            and base.options == head.options
            and not any(map(is_loaded_file, changed_paths(base.files, head.files)))
        )
        self._kinds: dict[tuple[str, bool], bool] = {}
        self._places: dict[str, bool] = {}
        self._selects = self._branches_differ()

    def reaches(self, target: Target) -> bool:
        """True if the rule may differ by it."""
        if self._packages and target.label.partition(":")[0][2:] in self._packages:
            return True
        if target.label in self._flags or (self._selects and target.has(SELECTS)):
            return True
        if not self._same_graph and target.rule_class in GRAPH_READERS:
            return True
        return self._options_differ(target) or self._definition_differs(target)

    def _options_differ(self, target: Target) -> bool:
        kind = target.rule_class, target.is_test
        if kind not in self._kinds:
            old, new = (side.options_of(target) for side in self._sides)
            self._kinds[kind] = old != new
        return self._kinds[kind]

    def _definition_differs(self, target: Target) -> bool:
        place = target.attributes.get(DEFINITION) if target.has(DEFINED) else None
        if place is None:
            return False
        if place not in self._places:
            old, new = (side.implementation(place) for side in self._sides)
            self._places[place] = old != new
        return self._places[place]

    def _branches_differ(self) -> bool:
        base, head = self._sides
        decided = [
            {
                name: values
                for name, values in side.options.items()
                if name == "define" or name.startswith(("/", "@"))
            }
            for side in self._sides
        ]
        if decided[0] != decided[1]:
            return True
        if self._same_graph:
            return False
        if base.graph.has_transitions != head.graph.has_transitions:
            return True
        return any(map(partial(_decides, base), head.graph.targets.values())) or any(
            map(partial(_decides, head), base.graph.targets.values())
        )


def _decides(other: Digests, target: Target) -> bool:
    """True if the target takes part in deciding select()s, and is not the same in `other`."""
    if target.kind != RULE:
        return False
    before = other.graph.targets.get(target.label)
    if before is not None and target.same_as(before):
        return False
    return target.rule_class in _DECIDING or graph.FLAG_DEFAULT in target.attributes
