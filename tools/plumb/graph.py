"""Bazel's target graph by value: what its targets are and which of them need which.

`parse` reads it from `bazel query --output=streamed_jsonproto`, one JSON object a line, of the
message `Target` of Bazel's build.proto; stream.read from the binary form, which is much faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

# Fields of a rule's message that do not say what the rule does; deps are kept apart.
_SKIPPED_RULE_FIELDS = frozenset(
    {
        "name",
        "ruleClass",
        "location",
        "attribute",
        "ruleInput",
        "configuredRuleInput",
        "instantiationStack",
        "definitionStack",
    }
)
# Fields of an attribute's message beside its value.
_SKIPPED_ATTRIBUTE_FIELDS = frozenset(
    {"name", "explicitlySpecified", "nodep", "sourceAspectName", "parseableLabel", "globCriteria"}
)
SUITE = "test_suite"
# Where a .bzl file of this repository defines the rule class, beside the rule's own attributes.
DEFINITION = "$definition"
FLAG_DEFAULT = "build_setting_default"
# Of rules that come with Bazel or with another repository.
_FOREIGN = ("/", "external/")
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
        return self.kind == RULE and self.rule_class.endswith("_test")


@dataclass(frozen=True)
class Graph:
    """The targets of one revision by label, and the Bazel release that loaded them."""

    targets: Mapping[str, Target]
    release: str

    @cached_property
    def users(self) -> Mapping[str, list[str]]:
        """Label to the targets that depend on it directly, by any branch of a select()."""
        found: dict[str, list[str]] = {}
        for label, target in self.targets.items():
            for dep in target.deps:
                if dep in found:
                    found[dep].append(label)
                else:
                    found[dep] = [label]
        return found

    @cached_property
    def leaves(self) -> frozenset[str]:
        """Labels that targets depend on and that are none here: of other repositories, missing."""
        return frozenset(self.users.keys() - self.targets.keys())

    @cached_property
    def has_transitions(self) -> bool:
        """True if a rule may set flags for what is below it, which the graph does not show."""
        return any(target.has(SHIFTS) for target in self.targets.values())

    def tests(self) -> list[Target]:
        """The test targets, sorted by label."""
        return [t for _, t in sorted(self.targets.items()) if t.is_test]

    def tests_of_all(self) -> list[Target]:
        """The tests that `bazel test //...` runs, sorted by label.

        Those tagged manual are left out, but for those that a suite lists which is not manual.
        """
        suites = [t for t in self.targets.values() if t.rule_class == SUITE and not t.is_manual]
        listed: set[str] = set()
        while suites:
            for label in set(suites.pop().deps) - listed:
                listed.add(label)
                target = self.targets.get(label)
                if target is not None and target.rule_class == SUITE:
                    suites.append(target)
        return [t for t in self.tests() if not t.is_manual or t.label in listed]


def canonical(label: str) -> str:
    """`label` in one spelling: the main repository as //, @@repo as @repo, the name spelled out."""
    if label.startswith("@"):
        label = "@" + label.lstrip("@")
        label = label.removeprefix("@") if label.startswith("@//") else label
    if ":" not in label and "//" in label:
        return f"{label}:{label.rpartition('/')[2]}"
    return label


def parse(lines: Iterable[bytes | str], release: str = "") -> Graph:
    """The graph in the lines of a stream. Raises ValueError for a line that is not a target."""
    targets = {}
    for line in lines:
        if line.strip():
            target = _target(json.loads(line))
            targets[target.label] = target
    return Graph(targets, release)


def source_path(label: str) -> str | None:
    """Path of the file that a label of the main repository names; None for an external one."""
    if not label.startswith("//"):
        return None
    package, _, name = label[2:].partition(":")
    return f"{package}/{name}" if package else name


def _target(message: Mapping[str, Any]) -> Target:
    kind = message.get("type")
    if kind == "RULE":
        return _rule(message["rule"])
    if kind == "SOURCE_FILE":
        file = message["sourceFile"]
        access = {"visibility": file.get("visibilityLabel", [])}
        return Target(name_of(file["name"]), SOURCE, "", access, ())
    if kind == "GENERATED_FILE":
        file = message["generatedFile"]
        return Target(name_of(file["name"]), GENERATED, "", {}, (name_of(file["generatingRule"]),))
    if kind == "PACKAGE_GROUP":
        group = dict(message["packageGroup"])
        return Target(name_of(group.pop("name")), GROUP, "", group, ())
    if kind == "ENVIRONMENT_GROUP":
        return Target(name_of(message["environmentGroup"]["name"]), GROUP, "", {}, ())
    raise ValueError(f"unknown kind of target in Bazel's output: {kind!r}")


def _rule(message: Mapping[str, Any]) -> Target:
    attributes = {a["name"]: value_of(a) for a in message.get("attribute", ())}
    attributes |= attributes_of(message)
    deps = {name_of(label) for label in message.get("ruleInput", ())}
    for attribute in message.get("attribute", ()):
        for element in attribute.get("selectorList", {}).get("elements", ()):
            conditions = (entry.get("label", "") for entry in element.get("entries", ()))
            deps |= {name_of(label) for label in conditions if is_condition(label)}
    return Target(
        name_of(message["name"]), RULE, message["ruleClass"], attributes, tuple(sorted(deps))
    )


def attributes_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """What a Rule message says beside its attributes, in the form of attributes."""
    found = {f"rule.{k}": value for k, value in message.items() if k not in _SKIPPED_RULE_FIELDS}
    place = place_of(message.get("definitionStack", ()))
    return found | {DEFINITION: place} if place else found


def place_of(definition_stack: Sequence[str]) -> str:
    """Where this repository defines the rule class; "" if another one does, or Bazel itself."""
    place = definition_stack[0] if definition_stack else "/"
    return "" if place.startswith(_FOREIGN) else place


def is_condition(label: str) -> bool:
    """True for the label of a select()'s branch, unless it is the one for 'no condition holds'."""
    return "//" in label and "conditions:default" not in label


def value_of(attribute: Mapping[str, Any]) -> Any:
    """The canonical value of an Attribute message."""
    fields = {k: v for k, v in attribute.items() if k not in _SKIPPED_ATTRIBUTE_FIELDS}
    kind = fields.pop("type", "")
    if len(fields) == 1:
        return next(iter(fields.values()))
    if not fields and kind.endswith("LIST"):
        return []
    # Booleans come with up to three fields that say the same.
    for name in ("booleanValue", "tristateValue", "intValue"):
        if kind in ("BOOLEAN", "TRISTATE", "INTEGER") and name in fields:
            return fields[name]
    return fields or None


def name_of(label: str) -> str:
    """A label of Bazel's output in canonical form."""
    return canonical(_utf8(label))


def _traits(attributes: Mapping[str, Any]) -> int:
    selects = any(isinstance(value, dict) and "elements" in value for value in attributes.values())
    shifts, defined = TRANSITION in attributes, DEFINITION in attributes
    return SELECTS * selects | SHIFTS * shifts | DEFINED * defined


def _utf8(label: str) -> str:
    # Bazel hands a file name's bytes over as if each were a Latin-1 letter.
    if label.isascii():
        return label
    try:
        return label.encode("latin-1").decode()
    except UnicodeError:
        return label
