"""A graph as another one with some packages read anew, which are few: the rest is shared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tools.plumb.graph import RULE, SOURCE, Graph, Index, Target, package_of, source_path

Packages = Mapping[str, Mapping[str, Target]]


class Layered(Index):
    """The targets of `root`, with those of some packages in place of its own.

    packages: package, such as //a/b, to its targets by label; none if it is gone.
    """

    def __init__(self, root: Index, packages: Packages) -> None:
        self.root, self.packages = root, packages

    def __getitem__(self, label: str) -> Target:
        own = self.packages.get(package_of(label))
        return self.root[label] if own is None else own[label]

    def __contains__(self, label: object) -> bool:
        own = self.packages.get(package_of(label)) if isinstance(label, str) else None
        return label in (self.root if own is None else own)

    def __iter__(self) -> Iterator[str]:
        yield from filter(self._is_shared, self.root)
        for targets in self.packages.values():
            yield from targets

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def leaves(self) -> frozenset[str]:
        """As in Index."""
        here = (label for package in self.packages for label in self._gone(package))
        named = {*self.root.leaves, *self._own_users, *here}
        return frozenset(label for label in named if label not in self and self._is_used(label))

    def users(self, label: str) -> Iterable[str]:
        """As in Index."""
        shared = filter(self._is_shared, self.root.users(label))
        return [*shared, *self._own_users.get(label, ())]

    def of_class(self, wanted: Callable[[str], bool]) -> Iterator[str]:
        """As in Index."""
        yield from filter(self._is_shared, self.root.of_class(wanted))
        yield from (t.label for t in self._own() if t.kind == RULE and wanted(t.rule_class))

    def with_trait(self, trait: int) -> Iterator[str]:
        """As in Index."""
        yield from filter(self._is_shared, self.root.with_trait(trait))
        yield from (t.label for t in self._own() if t.kind == RULE and t.has(trait))

    def said(self, label: str) -> Mapping[str, Any]:
        """As in Index."""
        own = self.packages.get(package_of(label))
        return self.root.said(label) if own is None else own[label].attributes

    def said_of(self, labels: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """As in Index."""
        shared = iter(self.root.said_of([*filter(self._is_shared, labels)]))
        return [
            next(shared) if own is None else own[label].attributes
            for label in labels
            for own in (self.packages.get(package_of(label)),)
        ]

    @cached_property
    def tests(self) -> Sequence[str]:
        """As in Index."""
        # Of the root they are looked for once, for both revisions.
        shared = filter(self._is_shared, self.root.tests)
        return [*shared, *(target.label for target in self._own() if target.is_test)]

    @cached_property
    def source_paths(self) -> Mapping[str, str]:
        """As in Index."""
        shared, own = self.root.source_paths.items(), self._own()
        found = {path: label for path, label in shared if self._is_shared(label)}
        return found | {source_path(t.label) or "": t.label for t in own if t.kind == SOURCE}

    def sources(self) -> Iterator[str]:
        """As in Index."""
        yield from filter(self._is_shared, self.root.sources())
        yield from (target.label for target in self._own() if target.kind == SOURCE)

    def _own(self) -> Iterator[Target]:
        for targets in self.packages.values():
            yield from targets.values()

    def _is_shared(self, label: str) -> bool:
        return package_of(label) not in self.packages

    def _is_used(self, label: str) -> bool:
        return label in self._own_users or any(map(self._is_shared, self.root.users(label)))

    def _gone(self, package: str) -> Iterable[str]:
        theirs = self.root.of_packages(frozenset(self.packages))
        return (label for label in theirs.get(package, ()) if label not in self)

    @cached_property
    def _own_users(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for target in self._own():
            for dep in target.deps:
                found.setdefault(dep, []).append(target.label)
        return found


def split(index: Index) -> tuple[Index, Packages]:
    """What the targets share with other graphs, and the packages that stand in its place."""
    return (index.root, index.packages) if isinstance(index, Layered) else (index, {})


def differing(one: Packages, other: Packages) -> set[str]:
    """Packages that are not the very same in two graphs over one root."""
    return {name for name in one.keys() | other.keys() if one.get(name) is not other.get(name)}


def apart(one: Index, other: Index) -> set[str] | None:
    """Labels of which Bazel may have said something else in one of the two; None if of any."""
    if one is other:
        return set()
    (root, own), (others_root, theirs) = split(one), split(other)
    if root is not others_root:
        return None
    packages = differing(own, theirs)
    return {label for side in (one, other) for label in of_packages(side, packages)}


def of_packages(index: Index, packages: Iterable[str]) -> Iterator[str]:
    """Labels of the targets of `packages`."""
    wanted = {*packages}
    root, own = split(index)
    for package in wanted & own.keys():
        yield from own[package]
    shared = frozenset(wanted - own.keys())
    if shared:
        for labels in root.of_packages(shared).values():
            yield from labels


def over(graph: Graph, read: Graph, packages: Iterable[str]) -> Graph:
    """`graph` with `packages` as `read` has them, where they are gone if it has none of them."""
    root, own = split(graph.index)
    found: dict[str, dict[str, Target]] = {package: {} for package in packages}
    for label, target in read.targets.items():
        if (package := package_of(label)) in found:
            found[package][label] = target
    loads = {name: labels for name, labels in graph.loads.items() if name not in found}
    return Graph(Layered(root, {**own, **found}), graph.release, {**loads, **read.loads})
