from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tools.plumb import graph
from tools.plumb.graph import DEFINED, SELECTS, SHIFTS, Graph, Target
from tools.plumb.stream import from_json, read, store
from tools.plumb.stream.packed import Packed
from tools.plumb.stream.write import delimited
from tools.plumb.synthetic import graph as made_up
from tools.plumb.synthetic import py_test

BRANCHES = {
    "elements": [
        {
            "entries": [
                {"label": "@//c:gpu", "stringListValue": ["@//a:gpu"]},
                {"label": "@//conditions:default", "isDefaultValue": False},
            ]
        }
    ]
}
ATTRIBUTES: list[dict[str, Any]] = [
    {"name": "tags", "type": "STRING_LIST", "stringListValue": ["cpu", "manual"]},
    {"name": "args", "type": "STRING_LIST"},
    {"name": "size", "type": "STRING", "stringValue": "small"},
    {"name": "main", "type": "LABEL", "nodep": False},
    {"name": "flaky", "type": "BOOLEAN", "intValue": 0, "booleanValue": False},
    {"name": "stamp", "type": "TRISTATE", "intValue": -1, "tristateValue": "AUTO"},
    {"name": "shard_count", "type": "INTEGER", "intValue": -1, "explicitlySpecified": True},
    {"name": "env", "type": "STRING_DICT", "stringDictValue": [{"key": "A", "value": "b"}]},
    {"name": "exec_properties", "type": "STRING_DICT"},
    {"name": "licenses", "type": "LICENSE", "license": {"licenseType": ["none"]}},
    {"name": "deps", "type": "SELECTOR_LIST", "selectorList": BRANCHES},
    {"name": "empty", "type": "SELECTOR_LIST", "selectorList": {}},
]
TARGETS: list[dict[str, Any]] = [
    {
        "type": "RULE",
        "rule": {
            "name": "@//a:t",
            "ruleClass": "py_test",
            "attribute": ATTRIBUTES,
            "ruleInput": ["@//a:gpu", "//a:é".encode().decode("latin-1")],
            "ruleOutput": ["//a:out"],
            "definitionStack": ["a/b.bzl:5:14: <toplevel>"],
        },
    },
    {"type": "RULE", "rule": {"name": "//a:l", "ruleClass": "py_library"}},
    {"type": "SOURCE_FILE", "sourceFile": {"name": "//a:gpu", "visibilityLabel": ["//x"]}},
    {"type": "GENERATED_FILE", "generatedFile": {"name": "//a:out", "generatingRule": "//a:t"}},
    {"type": "PACKAGE_GROUP", "packageGroup": {"name": "//a:g", "containedPackage": ["//x"]}},
    {"type": "ENVIRONMENT_GROUP", "environmentGroup": {"name": "//a:e"}},
]


def streamed(*targets: dict[str, Any]) -> Graph:
    return read.read(io.BytesIO(b"".join(map(delimited, targets))), "release 7.7.1")


def test_the_stream_gives_what_bazels_json_gives() -> None:
    written = from_json.parse([json.dumps(target) for target in TARGETS])

    assert dict(streamed(*TARGETS).targets) == dict(written.targets)


def test_what_every_answer_needs_is_known_without_decoding() -> None:
    found = streamed(*TARGETS)
    target = found.targets["//a:t"]

    assert isinstance(target.attributes, Packed)
    assert target.attributes.known == {
        "tags": ["cpu", "manual"],
        "exec_properties": None,
        graph.DEFINITION: "a/b.bzl:5:14: <toplevel>",
    }
    assert target.all_traits == SELECTS | DEFINED and found.index.leaves == {"//a:é", "//c:gpu"}


def test_traits_are_the_same_as_those_of_decoded_attributes() -> None:
    allowed = "@bazel_tools//tools/allowlists/function_transition_allowlist:x"
    shifts = {"name": graph.TRANSITION, "type": "LABEL", "stringValue": allowed}
    for attributes in ([], ATTRIBUTES, [shifts]):
        rule = {"type": "RULE", "rule": {**TARGETS[1]["rule"], "attribute": attributes}}
        target = streamed(rule).targets["//a:l"]
        plain = Target(target.label, target.kind, target.rule_class, dict(target.attributes), ())
        assert target.all_traits == plain.all_traits
    assert target.has(SHIFTS)


def test_rows_tell_targets_apart() -> None:
    first, second = (streamed(*TARGETS).targets["//a:t"] for _ in range(2))
    other = {"type": "RULE", "rule": {**TARGETS[0]["rule"], "attribute": ATTRIBUTES[1:]}}

    assert first.same_as(second) and not first.same_as(streamed(other).targets["//a:t"])


@pytest.mark.parametrize("cut", [1, 30])
def test_a_stream_that_breaks_off_is_an_error(cut: int) -> None:
    with pytest.raises(ValueError, match="ends in the middle"):
        read.read(io.BytesIO(delimited(TARGETS[0])[:-cut]))


def test_an_unknown_kind_and_another_format_are_errors() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        read.read(io.BytesIO(b"\x02\x08\x63"))
    with pytest.raises(ValueError, match="not a stream"):
        read.read(io.BytesIO(b"\x02{}"))


def test_messages_that_straddle_reads_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_READ", 7)

    assert len(streamed(*TARGETS).targets) == len(TARGETS)


@pytest.mark.parametrize("found", [streamed(*TARGETS), made_up(py_test("//a:t", ["//a:x"]))])
def test_a_graph_survives_the_cache(found: Graph) -> None:
    again, about = store.load(store.dump(found, {"a": 1}))

    assert (dict(again.targets), again.release) == (dict(found.targets), "release 7.7.1")
    assert about == {"a": 1} and again.index.leaves == found.index.leaves
    assert {*again.index.users("//a:x")} == {*found.index.users("//a:x")}
    for label, target in again.targets.items():
        assert target.same_as(found.targets[label])
        assert target.all_traits == found.targets[label].all_traits


@pytest.mark.parametrize("at", [3, 20, -1])
def test_bytes_that_are_damaged_are_no_graph(at: int) -> None:
    content = bytearray(store.dump(streamed(*TARGETS), {}))
    content[at] ^= 1

    for broken in (bytes(content), bytes(content)[:30], b""):
        with pytest.raises(ValueError, match="not a graph"):
            store.load(broken)


@pytest.mark.parametrize("empty", [Graph({}, "release 7.7.1"), Graph(streamed().targets, "")])
def test_a_graph_without_targets_or_release_is_not_taken_from_the_cache(empty: Graph) -> None:
    with pytest.raises(ValueError, match="no target or no release"):
        store.load(store.dump(empty, {}))
