from __future__ import annotations

from typing import Any

import pytest

from tools.plumb.graph import Target
from tools.plumb.options.branches import Branches
from tools.plumb.synthetic import graph, rule


def setting(**conditions: Any) -> Target:
    return rule("//:c", "config_setting", **conditions)


def pair(key: str, value: str) -> list[dict[str, str]]:
    return [{"key": key, "value": value}]


FLAG = rule("//:f", "string_flag", build_setting_default="a")
SWITCH = rule("//:s", "bool_flag", build_setting_default=0)


@pytest.mark.parametrize(
    ("conditions", "options", "holds"),
    [
        ({"flag_values": pair("@//:f", "a")}, {}, True),
        ({"flag_values": pair("//:f", "a")}, {"//:f": ("a", "b")}, False),
        ({"flag_values": pair("//:f", "b")}, {"//:f": ("b",)}, True),
        ({"flag_values": pair("//:s", "True")}, {"//:s": ("1",)}, True),
        ({"flag_values": pair("//:s", "False")}, {}, True),
        ({"flag_values": pair("//:other", "a")}, {}, None),
        ({"define_values": pair("k", "v")}, {"define": ("k=v",)}, True),
        ({"define_values": pair("k", "v")}, {"define": ("k=v", "k=w")}, False),
        ({"values": pair("define", "k=v")}, {}, False),
        ({"values": pair("compilation_mode", "opt")}, {"compilation_mode": ("opt",)}, None),
        ({"constraint_values": ["@platforms//os:linux"]}, {}, None),
        ({}, {}, None),
    ],
)
def test_a_condition_is_decided_by_flags(
    conditions: dict[str, Any], options: dict[str, tuple[str, ...]], holds: bool | None
) -> None:
    assert Branches(graph(setting(**conditions), FLAG, SWITCH), options).holds("//:c") is holds


def test_where_a_rule_sets_flags_itself_nothing_is_decided() -> None:
    shifts = rule("//:t", **{"$allowlist_function_transition": "x"})
    condition = setting(flag_values=pair("//:f", "a"))

    assert Branches(graph(condition, FLAG, shifts)).holds("//:c") is None


def test_a_condition_may_be_an_alias() -> None:
    other = rule("//:alias", "alias", actual="@//:c")
    made = graph(setting(flag_values=pair("//:f", "a")), FLAG, other)

    assert Branches(made).holds("//:alias") is True


def test_a_decided_list_is_as_if_written_plainly() -> None:
    entries = [
        {"label": "@//:c", "stringListValue": ["@//:x"]},
        {"label": "@//conditions:default"},
    ]
    always = {"label": "@//conditions:default", "stringListValue": ["@//:y"]}
    value = {"type": "LABEL_LIST", "elements": [{"entries": [always]}, {"entries": entries}]}
    made = graph(setting(flag_values=pair("//:f", "a")), FLAG)

    assert Branches(made).resolve(value) == (["@//:y", "@//:x"], {"//:x", "//:y"}, {"//:c"})
    resolved, taken, left = Branches(made, {"//:f": ("b",)}).resolve(value)
    assert (resolved, taken, left) == (["@//:y"], {"//:y"}, {"//:c", "//:x"})


def test_without_a_branch_that_holds_all_of_it_stays() -> None:
    value = {"type": "STRING", "elements": [{"entries": [{"label": "@//:c", "stringValue": "x"}]}]}
    made = graph(setting(flag_values=pair("//:f", "b")), FLAG)

    assert Branches(made).resolve(value)[0] == value
