"""Where two revisions differ, target by target: what each is by itself, and what it depends on.

Most targets of a large graph are the same on both sides. Of these nothing is decoded or digested:
Bazel said the same of them, and what else can make a difference is looked at for all at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tools.plumb import graph
from tools.plumb.compare.digest import GRAPH_READERS, Digests
from tools.plumb.graph import DEFINED, DEFINITION, RULE, SELECTS, Target
from tools.plumb.incremental import layered
from tools.plumb.steering.inputs import is_loaded_file
from tools.plumb.trees.files import changed_paths

# Rules that decide select()s, beside flags.
_DECIDING = ("config_setting", "alias")


def differing(base: Digests, head: Digests) -> set[str]:
    """Labels that differ by themselves, in their direct deps, or that only one revision has."""
    old, new = base.graph.targets, head.graph.targets
    shared = layered.apart(base.graph.index, head.graph.index)
    apart = {*old, *new} if shared is None else shared
    found = {n for n in apart if (n in old) != (n in new) and base.knows(n) != head.knows(n)}
    leaves = base.graph.index.leaves | head.graph.index.leaves
    leaves |= base.flag_users.keys() | head.flag_users.keys()
    leaves = frozenset(leaf for leaf in leaves if leaf not in old and leaf not in new)
    suspects = [*leaves, *_suspects(base, head, apart)]
    return found | {label for label in suspects if _differs(base, head, label)}


def _differs(base: Digests, head: Digests, label: str) -> bool:
    return base.own(label) != head.own(label) or base.deps(label) != head.deps(label)


def _suspects(base: Digests, head: Digests, apart: Collection[str]) -> Iterator[str]:
    """Targets of both revisions that have to be looked at one by one.

    apart: those of which Bazel may have said something else.
    """
    old, new = base.graph.targets, head.graph.targets
    paths = head.graph.index.source_paths
    changed = {*changed_paths(base.files, head.files)} & paths.keys()
    for path in changed | head.files.not_plain(paths.keys()):
        if paths[path] in old:
            yield paths[path]
    context = _Context(base, head, apart)
    for label in {*apart, *context.reached()}:
        before, target = old.get(label), new.get(label)
        if before is None or target is None:
            continue
        if not target.same_as(before) or (target.kind == RULE and context.reaches(target)):
            yield label


class _Context:
    """What can make a rule differ of which Bazel said the same on both sides."""

    def __init__(self, base: Digests, head: Digests, apart: Collection[str]) -> None:
        self._sides, self._apart = (base, head), apart
        self._same_graph = base.graph is head.graph
        self._packages = base.packages.keys() | head.packages.keys()
        self._flags = {
            name for name in base.options.keys() | head.options.keys() if name.startswith("/")
        }
        self._kinds: dict[tuple[str, bool], bool] = {}
        self._places: dict[str, bool] = {}
        self._selects = self._branches_differ()

    def reached(self) -> Iterator[str]:
        """Rules that `reaches` may hold for, among those of which Bazel said the same."""
        index = self._sides[1].graph.index
        yield from self._flags
        yield from layered.of_packages(index, {f"//{name}" for name in self._packages})
        if self._selects:
            yield from index.with_trait(SELECTS)
        if not self._same_graph:
            yield from index.of_class(GRAPH_READERS.__contains__)
        if self._sides[0].options != self._sides[1].options:
            yield from index.of_class(self._class_differs)
        if self._code_differs():
            yield from index.with_trait(DEFINED)

    def _class_differs(self, rule_class: str) -> bool:
        target = Target("", RULE, rule_class, {}, ())
        return self._options_differ(target)

    def _code_differs(self) -> bool:
        base, head = self._sides
        names = base.steering.own_names != head.steering.own_names
        return names or any(map(is_loaded_file, changed_paths(base.files, head.files)))

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
        return any(
            target is not None and _decides(other, target)
            for label in self._apart
            for other, target in (
                (base, head.graph.targets.get(label)),
                (head, base.graph.targets.get(label)),
            )
        )


def _decides(other: Digests, target: Target) -> bool:
    """True if the target takes part in deciding select()s, and is not the same in `other`."""
    if target.kind != RULE:
        return False
    before = other.graph.targets.get(target.label)
    if before is not None and target.same_as(before):
        return False
    return target.rule_class in _DECIDING or graph.FLAG_DEFAULT in target.attributes
