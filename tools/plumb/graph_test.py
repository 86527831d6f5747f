from __future__ import annotations

import json
from typing import Any

import pytest

from tools.plumb import graph
from tools.plumb.stream import from_json


def attribute(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "explicitlySpecified": True, "nodep": False, **fields}


def parse_rule(*attributes: dict[str, Any], inputs: tuple[str, ...] = ()) -> graph.Target:
    message = {
        "type": "RULE",
        "rule": {
            "name": "@//a:t",
            "ruleClass": "py_test",
            "attribute": list(attributes),
            "ruleInput": list(inputs),
            "location": "/x/BUILD:1:1",
        },
    }
    return from_json.parse([json.dumps(message)]).targets["//a:t"]


def test_labels_get_one_spelling() -> None:
    spelled = {"@//a:b", "@@//a:b", "//a:b"}
    assert {graph.canonical(label) for label in spelled} == {"//a:b"}
    assert graph.canonical("//a/b") == "//a/b:b"
    assert graph.canonical("@@pip_x//:pkg") == "@pip_x//:pkg"


def test_a_default_spelled_out_is_the_same_value() -> None:
    spelled = attribute("flaky", "BOOLEAN", intValue=0, stringValue="false", booleanValue=False)
    default = {**spelled, "explicitlySpecified": False}

    assert parse_rule(spelled) == parse_rule(default)


def test_values_keep_their_kind() -> None:
    target = parse_rule(
        attribute("flaky", "BOOLEAN", intValue=1, stringValue="true", booleanValue=True),
        attribute("shard_count", "INTEGER", intValue=-1),
        attribute("size", "STRING", stringValue="small"),
        attribute("args", "STRING_LIST"),
        attribute("main", "LABEL"),
    )

    assert target.attributes == {
        "flaky": True,
        "shard_count": -1,
        "size": "small",
        "args": [],
        "main": None,
    }


def test_every_branch_of_a_select_is_kept_and_its_conditions_are_deps() -> None:
    entries = [
        {"label": "@//a:gpu", "stringListValue": ["@//a:x"], "isDefaultValue": False},
        {"label": "@//conditions:default", "stringListValue": [], "isDefaultValue": False},
    ]
    element = {"entries": entries, "hasDefaultValue": True}
    target = parse_rule(
        attribute("deps", "SELECTOR_LIST", selectorList={"elements": [element]}),
        inputs=("@//a:x",),
    )

    assert target.attributes["deps"] == {"elements": [element]}
    assert target.deps == ("//a:gpu", "//a:x")


def test_other_kinds_of_targets_are_read() -> None:
    parsed = from_json.parse(
        [
            '{"type":"SOURCE_FILE","sourceFile":{"name":"//a:s.py"}}',
            '{"type":"GENERATED_FILE","generatedFile":{"name":"//a:o","generatingRule":"//a:r"}}',
            '{"type":"PACKAGE_GROUP","packageGroup":{"name":"//a:g"}}',
            "",
        ]
    )

    assert {t.label: (t.kind, t.deps) for t in parsed.targets.values()} == {
        "//a:s.py": ("source", ()),
        "//a:o": ("generated", ("//a:r",)),
        "//a:g": ("group", ()),
    }


def test_a_file_name_outside_ascii_is_read_as_utf_8() -> None:
    raw = "//a:é.py".encode().decode("latin-1")
    line = json.dumps({"type": "SOURCE_FILE", "sourceFile": {"name": raw}})

    assert list(from_json.parse([line]).targets) == ["//a:é.py"]


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="NOVELTY"):
        from_json.parse(['{"type":"NOVELTY"}'])


def test_tests_are_rules_named_test_but_not_suites() -> None:
    assert parse_rule().is_test
    suite = graph.Target("//a:s", graph.RULE, "test_suite", {}, ())
    assert not suite.is_test


def test_source_paths_are_those_of_the_main_repository() -> None:
    assert graph.source_path("//a/b:c/d.py") == "a/b/c/d.py"
    assert graph.source_path("//:d.py") == "d.py"
    assert graph.source_path("@x//a:b") is None
