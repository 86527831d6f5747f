"""What targets are by value: what makes Bazel run a test again, and nothing else.

Counted: rule class and implementation, attributes by value (spelled out or default alike),
content of sources, package() settings, options of .bazelrc that reach the rule. Of a select()
only the branch that the pool's options take, where they decide it.
Not counted: visibility, where and by which macro a rule was declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tools.plumb import graph
from tools.plumb.compare.outside import Outside
from tools.plumb.graph import Graph, Target
from tools.plumb.options import reach
from tools.plumb.options.branches import Branches, labels_in
from tools.plumb.starlark.slices import Slice, Slices
from tools.plumb.starlark.source import hashed
from tools.plumb.steering.inputs import SteeringInputs
from tools.plumb.trees.files import FileTable

UNCOUNTED_ATTRIBUTES = frozenset(
    {
        "name",
        "visibility",
        "deprecation",
        "generator_name",
        "generator_function",
        "generator_location",
        "testonly",
        "distribs",
        "licenses",
        # The conditions of select()s, which stand in the values of those that are not decided.
        "$config_dependencies",
    }
)
# Of a rule that is no test, only these tags say how its actions run; of a test, every tag is part
# of the action.
_EXECUTION_TAGS = (
    "no-",
    "local",
    "requires-",
    "supports-",
    "block-network",
    "disable-",
    "cpu:",
    "exclusive",
)
# Rules whose files reach a test as a tree, in which the order of this attribute does not show.
_UNORDERED = "data"
_TREES = ("sh_test", "sh_library", "sh_binary", "py_test", "py_library", "py_binary")
_HASH = "$rule_implementation_hash"
# Names a part of a source that two revisions never share.
OUTSIDE = "behind a link that leaves the workspace"
# A genquery's output is the graph itself, with what is not counted elsewhere.
GRAPH_READERS = ("genquery",)


@dataclass
class Digests:
    """Digests of one revision's targets, computed on demand.

    own: of what a target is by itself. deps: what it depends on; the tracer follows these.
    packages: package name to its package() settings, for those that differ between the two.
    side: what this revision is to the other, such as 'head'.
    options: what .bazelrc gives `bazel test` for the pool in question: name to values.
    """

    graph: Graph
    files: FileTable
    steering: SteeringInputs
    packages: Mapping[str, str] = field(default_factory=dict)
    side: str = ""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    slices: Slices | None = None
    _branches: Branches | None = field(default=None, repr=False)
    _reaching: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict, repr=False)
    _outside: Outside | None = field(default=None, repr=False)
    _own: dict[str, str] = field(default_factory=dict, repr=False)
    _deps: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    _everything: str = field(default="", repr=False)

    def parts(self, label: str) -> dict[str, Any]:
        """What `label` is by itself, name to value: attributes, or a source's content."""
        target = self.graph.targets.get(label)
        if label.startswith("@"):
            return self._outside_repository().parts(label)
        if target is None or target.kind == graph.SOURCE:
            return self._source(graph.source_path(label) or "")
        if target.kind != graph.RULE:
            return {}
        parts: dict[str, Any] = {"rule class": target.rule_class}
        for name, value in target.attributes.items():
            if name not in UNCOUNTED_ATTRIBUTES and name != graph.DEFINITION:
                parts[name] = self._value(value)
        settings = self.packages.get(label.partition(":")[0].removeprefix("//"))
        if settings:
            parts["package() settings"] = settings
        self._settle(target, parts)
        if target.rule_class in GRAPH_READERS:
            parts["target graph"] = self._whole_graph()
        return parts | self.options_of(target)

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict) and "elements" in value:
            return self.branches.resolve(value)[0]
        return value

    def implementation(self, place: str) -> Slice | None:
        """What the rules that a .bzl file here defines at `place` consist of."""
        self.slices = self.slices or Slices(self.files, self.steering.own_names)
        return self.slices.of(place)

    def _settle(self, target: Target, parts: dict[str, Any]) -> None:
        """Puts in place of what Bazel says of a rule what counts of it."""
        place = target.attributes.get(graph.DEFINITION)
        implementation = self.implementation(place) if place else None
        if implementation is not None and _HASH in parts:
            parts[_HASH] = implementation.digest
        foreign = place is None and _HASH in parts and target.rule_class not in _TREES
        reads = implementation.reads if implementation is not None else frozenset[str]()
        parts["tags"] = sorted(
            tag
            for tag in target.tags
            if target.is_test or foreign or "tags" in reads or tag.startswith(_EXECUTION_TAGS)
        )
        known = implementation is not None or reach.without_compiler(target.rule_class)
        if known and "features" not in reads:
            _drop_features(parts)
        data = parts.get(_UNORDERED)
        if target.rule_class in _TREES and isinstance(data, list):
            parts[_UNORDERED] = sorted(data, key=str)
        if target.label in self.options and graph.FLAG_DEFAULT in parts:
            parts[graph.FLAG_DEFAULT] = self.options[target.label][-1]

    def options_of(self, target: Target) -> dict[str, Any]:
        """The options of .bazelrc that reach rules of this one's kind."""
        kind = f"{'test ' if target.is_test else ''}{target.rule_class}"
        if kind not in self._reaching:
            found = reach.of_rule(self.options, target.rule_class)
            if target.is_test:
                found |= reach.of_every_test(self.options)
            self._reaching[kind] = {f"option --{name}": value for name, value in found.items()}
        return self._reaching[kind]

    @property
    def branches(self) -> Branches:
        """What decides select()s here."""
        if self._branches is None:
            self._branches = Branches(self.graph, self.options)
        return self._branches

    def _outside_repository(self) -> Outside:
        if self._outside is None:
            self._outside = Outside(
                self.graph, self.files, self.steering, self.options, self.own, self.deps
            )
        return self._outside

    def _source(self, path: str) -> dict[str, str]:
        outside = self.files.outside(path)
        # No tree holds that content: it may have changed with nothing to show for it.
        unknown = {OUTSIDE: f"{outside} at the {self.side}"} if outside is not None else {}
        return {"content": self.files.identity(path)} | unknown

    def own(self, label: str) -> str:
        """Digest of `parts(label)`."""
        if label not in self._own:
            self._own[label] = hashed([label, self.parts(label)])
        return self._own[label]

    def deps(self, label: str) -> tuple[str, ...]:
        """What `label` depends on directly, without branches that are not taken.

        A flag depends on what .bazelrc sets it to.
        """
        if label not in self._deps:
            self._deps[label] = self._find_deps(label)
        return self._deps[label]

    @cached_property
    def flag_users(self) -> dict[str, list[str]]:
        """What .bazelrc sets flags to, which no edge of the graph shows, to those flags."""
        found: dict[str, list[str]] = {}
        for flag in self.options:
            target = self.graph.targets.get(flag)
            if target is not None:
                for dep in {*self.deps(flag)} - {*target.deps}:
                    found.setdefault(dep, []).append(flag)
        return found

    def _find_deps(self, label: str) -> tuple[str, ...]:
        target = self.graph.targets.get(label)
        if target is None:
            return ()
        if label in self.options and graph.FLAG_DEFAULT in target.attributes:
            default = target.attributes[graph.FLAG_DEFAULT]
            value = self.options[label][-1]
            named = {graph.canonical(value)} if "//" in value else set()
            return tuple(sorted(({*target.deps} - {*labels_in(default)}) | named))
        if not target.has(graph.SELECTS):
            return target.deps
        left: set[str] = set()
        kept: set[str] = set()
        for value in target.attributes.values():
            if isinstance(value, dict) and "elements" in value:
                _, taken, not_taken = self.branches.resolve(value)
                kept |= taken
                left |= not_taken
        if not left:
            return target.deps
        for name, value in target.attributes.items():
            selects = isinstance(value, dict) and "elements" in value
            if name not in UNCOUNTED_ATTRIBUTES and not selects:
                kept.update(labels_in(value))
        return tuple(dep for dep in target.deps if dep in kept or dep not in left)

    def knows(self, label: str) -> bool:
        """True if the label is a target here; leaves outside the graph are always known."""
        return label in self.graph.targets or label.startswith("@")

    def _whole_graph(self) -> str:
        if not self._everything:
            rows = [
                t.row.hex() or [t.label, t.kind, t.rule_class, t.attributes, t.deps]
                for _, t in sorted(self.graph.targets.items())
            ]
            self._everything = hashed(rows)
        return self._everything


def _drop_features(parts: dict[str, Any]) -> None:
    for name in ("features", "rule.defaultSetting"):
        parts.pop(name, None)
    lines = parts.pop("package() settings", "").splitlines()
    if kept := [line for line in lines if "arg='features'" not in line]:
        parts["package() settings"] = "\n".join(kept)
