"""Reads a target graph from Bazel's JSON, and the values that its messages hold.

`parse` takes `bazel query --output=streamed_jsonproto`, one JSON object a line, of the message
`Target` of Bazel's build.proto; stream.read takes the binary form, which is much faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tools.plumb.graph import DEFINITION, GENERATED, GROUP, RULE, SOURCE, Graph, Target, canonical

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
# Of rules that come with Bazel or with another repository.
_FOREIGN = ("/", "external/")


def parse(lines: Iterable[bytes | str], release: str = "") -> Graph:
    """The graph in the lines of a stream. Raises ValueError for a line that is not a target."""
    targets = {}
    for line in lines:
        if line.strip():
            target = _target(json.loads(line))
            targets[target.label] = target
    return Graph(targets, release)


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


def _utf8(label: str) -> str:
    # Bazel hands a file name's bytes over as if each were a Latin-1 letter.
    if label.isascii():
        return label
    try:
        return label.encode("latin-1").decode()
    except UnicodeError:
        return label
