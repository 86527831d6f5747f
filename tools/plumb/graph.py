"""Bazel's target graph by value: what its targets are and which of them need which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

# So many beginnings are looked for faster than a label is taken apart.
_FEW_STARTS = 8
SUITE = "test_suite"
# Where a .bzl file of this repository defines the rule class, beside the rule's own attributes.
DEFINITION = "$definition"
FLAG_DEFAULT = "build_setting_default"
RULE, SOURCE, GENERATED, GROUP = "rule", "source", "generated", "group"
# Traits of a target: an attribute may be a select(); the rule may set flags for what is below it;
# a .bzl file of this repository defines its class.
SELECTS, SHIFTS, DEFINED = 1, 2, 4
TRANSITION = "$allowlist_function_transition"
_UNKNOWN_TRAITS = -1


@dataclass(frozen=True, slots=True)
class Target:
    """A node of the graph.

    kind: 'rule', 'source', 'generated' (deps: the rule that makes it) or 'group'.
    attributes: name to canonical JSON value, with select() branches kept apart.
    deps: labels in canonical form, every branch of every select().
    row: digest of all that Bazel said of the target, b"" if that is not known.
    traits: SELECTS, SHIFTS and DEFINED as far as they hold.
    """

    label: str
    kind: str
    rule_class: str
    attributes: Mapping[str, Any]
    deps: tuple[str, ...]
    row: bytes = field(default=b"", compare=False, repr=False)
    traits: int = field(default=_UNKNOWN_TRAITS, compare=False, repr=False)

    def same_as(self, other: Target) -> bool:
        """True if Bazel said exactly the same of both."""
        if self is other:
            return True
        if self.row and other.row:
            return self.row == other.row
        return self == other

    def has(self, trait: int) -> bool:
        """True if the trait holds."""
        return bool(self.all_traits & trait)

    @property
    def all_traits(self) -> int:
        """The traits, found in the attributes where they are not known."""
        return _traits(self.attributes) if self.traits == _UNKNOWN_TRAITS else self.traits

    @property
    def tags(self) -> tuple[str, ...]:
        """The rule's tags."""
        value = self.attributes.get("tags")
        return tuple(value) if isinstance(value, list) else ()

    @property
    def is_manual(self) -> bool:
        """True if a pattern such as //... leaves the target out."""
        return "manual" in self.tags

    @property
    def is_test(self) -> bool:
        """True for what `bazel test` runs; suites only name such targets."""
        return self.kind == RULE and is_test_class(self.rule_class)


class Index(Mapping[str, Target]):
    """Targets by label, with the questions that would else visit each of them."""

    @cached_property
    def leaves(self) -> frozenset[str]:
        """Labels that targets depend on and that are none here: of other repositories, missing."""
        return frozenset(self._users.keys() - self.keys())

    @cached_property
    def _users(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for label, target in self.items():
            for dep in target.deps:
                found.setdefault(dep, []).append(label)
        return found

    def of_packages(self, packages: frozenset[str]) -> Mapping[str, list[str]]:
        """Each of `packages`, such as //a/b, that has targets, to their labels."""
        if packages not in self._by_packages:
            found: dict[str, list[str]] = {}
            # Most labels are of others, which one look at their beginning tells.
            starts = tuple(f"{package}:" for package in packages)
            few = len(packages) <= _FEW_STARTS
            for label in self:
                if label.startswith(starts) if few else package_of(label) in packages:
                    found.setdefault(package_of(label), []).append(label)
            self._by_packages[packages] = found
        return self._by_packages[packages]

    @cached_property
    def _by_packages(self) -> dict[frozenset[str], Mapping[str, list[str]]]:
        return {}

    def users(self, label: str) -> Iterable[str]:
        """Targets that depend on `label` directly, by any branch of a select()."""
        return self._users.get(label, ())

    def of_class(self, wanted: Callable[[str], bool]) -> Iterator[str]:
        """Labels of the rules whose class `wanted` takes."""
        return (label for label, t in self.items() if t.kind == RULE and wanted(t.rule_class))

    @cached_property
    def tests(self) -> Sequence[str]:
        """Labels of the test targets, in any order."""
        return [*self.of_class(is_test_class)]

    def with_trait(self, trait: int) -> Iterator[str]:
        """Labels of the rules that have the trait."""
        return (label for label, t in self.items() if t.kind == RULE and t.has(trait))

    def sources(self) -> Iterator[str]:
        """Labels of the source files."""
        return (label for label, target in self.items() if target.kind == SOURCE)

    @cached_property
    def source_paths(self) -> Mapping[str, str]:
        """Path of each source file, of the main repository, to its label."""
        return {source_path(label) or "": label for label in self.sources()}

    def said(self, label: str) -> Mapping[str, Any]:
        """The attributes of a test or of a suite, or those that are often asked: tags is one.

        Targets that say the same may share one mapping.
        """
        return self[label].attributes

    def said_of(self, labels: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """What `said` says of each of `labels`, all of which are here."""
        return [self.said(label) for label in labels]


class _Plain(Index):
    def __init__(self, targets: Mapping[str, Target]) -> None:
        self._targets = targets

    def __getitem__(self, label: str) -> Target:
        return self._targets[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)


@dataclass(frozen=True)
class Graph:
    """The targets of one revision by label, and the Bazel release that loaded them.

    loads: package, such as //a/b, to the labels of the .bzl files that it loads, by way of others
    too.
    """

    targets: Mapping[str, Target]
    release: str
    loads: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def index(self) -> Index:
        """The targets, with the questions that one asks of many."""
        return self.targets if isinstance(self.targets, Index) else _Plain(self.targets)

    @cached_property
    def has_transitions(self) -> bool:
        """True if a rule may set flags for what is below it, which the graph does not show."""
        return any(True for _ in self.index.with_trait(SHIFTS))

    def tests(self) -> list[Target]:
        """The test targets, sorted by label."""
        return [self.targets[label] for label in self.test_labels]

    @cached_property
    def test_labels(self) -> list[str]:
        """Labels of the test targets, sorted."""
        return sorted(self.index.tests)

    def tests_of_all(self) -> list[Target]:
        """The tests that `bazel test //...` runs, sorted by label."""
        return [self.targets[label] for label in self.labels_of_all]

    @cached_property
    def labels_of_all(self) -> list[str]:
        """Labels of the tests that `bazel test //...` runs, sorted.

        Those tagged manual are left out, but for those that a suite lists which is not manual.
        """
        named = map(self.targets.__getitem__, self.index.of_class(SUITE.__eq__))
        suites = [target for target in named if not target.is_manual]
        listed: set[str] = set()
        while suites:
            for label in set(suites.pop().deps) - listed:
                listed.add(label)
                target = self.targets.get(label)
                if target is not None and target.rule_class == SUITE:
                    suites.append(target)
        tests = self.test_labels
        said = self.index.said_of(tests)
        manual = tagged(said, "manual")
        return [n for n, it in zip(tests, said, strict=True) if id(it) not in manual or n in listed]


def tagged(said: Iterable[Mapping[str, Any]], tag: str) -> set[int]:
    """The id() of each of `said` whose tags hold `tag`: one look for all tests that share one."""
    apart = {id(one): one for one in said}
    return {number for number, one in apart.items() if tag in (one.get("tags") or ())}


def is_test_class(name: str) -> bool:
    """True for the class of a rule that `bazel test` runs."""
    return name.endswith("_test")


def package_of(label: str) -> str:
    """The package of a label, such as //a/b."""
    return label.partition(":")[0]


def canonical(label: str) -> str:
    """`label` in one spelling: the main repository as //, @@repo as @repo, the name spelled out."""
    if label.startswith("@"):
        label = "@" + label.lstrip("@")
        label = label.removeprefix("@") if label.startswith("@//") else label
    if ":" not in label and "//" in label:
        return f"{label}:{label.rpartition('/')[2]}"
    return label


def source_path(label: str) -> str | None:
    """Path of the file that a label of the main repository names; None for an external one."""
    if not label.startswith("//"):
        return None
    package, _, name = label[2:].partition(":")
    return f"{package}/{name}" if package else name


def _traits(attributes: Mapping[str, Any]) -> int:
    selects = any(isinstance(value, dict) and "elements" in value for value in attributes.values())
    shifts, defined = TRANSITION in attributes, DEFINITION in attributes
    return SELECTS * selects | SHIFTS * shifts | DEFINED * defined
