"""Decodes what Bazel wrote of a rule: the value of each attribute."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format

from tools.plumb.stream import messages
from tools.plumb.stream.from_json import attributes_of, value_of

_LISTS = frozenset(
    messages.Type.Value(name)
    for name in ("STRING_LIST", "LABEL_LIST", "OUTPUT_LIST", "DISTRIBUTION_SET")
)
_TEXTS = frozenset(messages.Type.Value(name) for name in ("STRING", "LABEL", "OUTPUT"))
_BOOLEAN, _DICT = messages.Type.Value("BOOLEAN"), messages.Type.Value("STRING_DICT")


def decode(message: bytes) -> dict[str, Any]:
    """Every attribute of the rule in `message`, a Target of Bazel's stream."""
    rule = messages.Target.FromString(message).rule
    attributes = {attribute.name: value(attribute) for attribute in rule.attribute}
    del rule.attribute[:]
    return attributes | attributes_of(json_format.MessageToDict(rule))


def value(attribute: Any) -> Any:
    """The value of an Attribute message, the same as from Bazel's JSON."""
    kind = attribute.type
    if kind in _LISTS:
        return list(attribute.string_list_value)
    if kind in _TEXTS:
        return attribute.string_value if attribute.HasField("string_value") else None
    if kind == _DICT:
        pairs = [{"key": pair.key, "value": pair.value} for pair in attribute.string_dict_value]
        return pairs or None
    if kind == _BOOLEAN and attribute.HasField("boolean_value"):
        return attribute.boolean_value
    return value_of(json_format.MessageToDict(attribute))
