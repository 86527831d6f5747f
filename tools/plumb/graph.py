"""Bazel's target graph by value, parsed from `bazel query --output=streamed_jsonproto`.

The stream holds one JSON object a line, of the message `Target` of Bazel's build.proto.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
_SUITE = "test_suite"
# Where a .bzl file of this repository defines the rule class, beside the rule's own attributes.
DEFINITION = "$definition"
FLAG_DEFAULT = "build_setting_default"
# Of rules that come with Bazel or with another repository.
_FOREIGN = ("/", "external/")
RULE, SOURCE, GENERATED, GROUP = "rule", "source", "generated", "group"


@dataclass(frozen=True)
class Target:
    """A node of the graph.

    kind: 'rule', 'source', 'generated' (deps: the rule that makes it) or 'group'.
    attributes: name to canonical JSON value, with select() branches kept apart.
    deps: labels in canonical form, every branch of every select().
    """

    label: str
    kind: str
    rule_class: str
    attributes: Mapping[str, Any]
    deps: tuple[str, ...]

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

    def tests(self) -> list[Target]:
        """The test targets, sorted by label."""
        return [t for _, t in sorted(self.targets.items()) if t.is_test]

    def tests_of_all(self) -> list[Target]:
        """The tests that `bazel test //...` runs, sorted by label.

        Those tagged manual are left out, but for those that a suite lists which is not manual.
        """
        suites = [t for t in self.targets.values() if t.rule_class == _SUITE and not t.is_manual]
        listed: set[str] = set()
        while suites:
            for label in set(suites.pop().deps) - listed:
                listed.add(label)
                target = self.targets.get(label)
                if target is not None and target.rule_class == _SUITE:
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


def dump(graph: Graph) -> bytes:
    """The graph as bytes for the cache."""
    rows = [[t.label, t.kind, t.rule_class, t.attributes, t.deps] for t in graph.targets.values()]
    data = json.dumps({"release": graph.release, "targets": rows}, separators=(",", ":"))
    return gzip.compress(data.encode(), compresslevel=1, mtime=0)


def load(data: bytes) -> Graph:
    """The graph that `dump` wrote. Raises ValueError if the bytes are not one, or an empty one."""
    try:
        content = json.loads(gzip.decompress(data))
        targets = {
            row[0]: Target(row[0], row[1], row[2], row[3], tuple(row[4]))
            for row in content["targets"]
        }
        if not targets or not content["release"]:
            raise ValueError("not a graph: no target or no release of Bazel")
        return Graph(targets, content["release"])
    except (OSError, EOFError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"not a graph: {error}") from error


def _target(message: Mapping[str, Any]) -> Target:
    kind = message.get("type")
    if kind == "RULE":
        return _rule(message["rule"])
    if kind == "SOURCE_FILE":
        file = message["sourceFile"]
        access = {"visibility": file.get("visibilityLabel", [])}
        return Target(_name(file["name"]), SOURCE, "", access, ())
    if kind == "GENERATED_FILE":
        file = message["generatedFile"]
        return Target(_name(file["name"]), GENERATED, "", {}, (_name(file["generatingRule"]),))
    if kind == "PACKAGE_GROUP":
        group = dict(message["packageGroup"])
        return Target(_name(group.pop("name")), GROUP, "", group, ())
    if kind == "ENVIRONMENT_GROUP":
        return Target(_name(message["environmentGroup"]["name"]), GROUP, "", {}, ())
    raise ValueError(f"unknown kind of target in Bazel's output: {kind!r}")


def _rule(message: Mapping[str, Any]) -> Target:
    attributes = {a["name"]: _value(a) for a in message.get("attribute", ())}
    for name, value in message.items():
        if name not in _SKIPPED_RULE_FIELDS:
            attributes[f"rule.{name}"] = value
    place = next(iter(message.get("definitionStack", ())), "/")
    if not place.startswith(_FOREIGN):
        attributes[DEFINITION] = place
    deps = {_name(label) for label in message.get("ruleInput", ())}
    for attribute in message.get("attribute", ()):
        for element in attribute.get("selectorList", {}).get("elements", ()):
            deps |= {_name(e["label"]) for e in element.get("entries", ()) if _is_label(e)}
    return Target(
        _name(message["name"]), RULE, message["ruleClass"], attributes, tuple(sorted(deps))
    )


def _is_label(entry: Mapping[str, Any]) -> bool:
    # The branch for 'no condition holds' has a pseudo label that names no target.
    return "//" in entry.get("label", "") and "conditions:default" not in entry["label"]


def _value(attribute: Mapping[str, Any]) -> Any:
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


def _name(label: str) -> str:
    return canonical(_utf8(label))


def _utf8(label: str) -> str:
    # Bazel hands a file name's bytes over as if each were a Latin-1 letter.
    if label.isascii():
        return label
    try:
        return label.encode("latin-1").decode()
    except UnicodeError:
        return label
