from tools.plumb.deps.build_files import Call, absolute, read

BUILD = """\
load("//:defs.bzl", "made_test")
py_library(
    name = "a",
    srcs = ["a.py"],
    deps = [
        ":b",
        "//c",  # plumb: keep, it registers itself
        # Needed at run time.
        # plumb: keep, a plugin
        "//d:e",
        "@pip//f:pkg",  # plumb: keep
    ] + select({
        "//:gpu": ["//g"],
        "//conditions:default": [],
    }),
)
[made_test(name = kind, deps = [":a"]) for kind in ["x", "y"]]
"""


def calls() -> dict[str | None, Call]:
    return {call.name: call for call in read(BUILD, "p")}


def test_labels_are_read_in_canonical_form_with_their_place() -> None:
    found = {literal.label: literal for literal in calls()["a"].literals}

    assert found["//p:b"].written == ":b"
    assert (found["//p:b"].attribute, found["//p:b"].line) == ("deps", 6)
    assert found["//c:c"].attribute == "deps"
    assert found["//g:g"].in_select
    assert not found["//p:b"].in_select


def test_a_keep_comment_stands_beside_or_above_its_label() -> None:
    call = calls()["a"]
    keeps = {literal.label: literal.keep for literal in call.literals}

    assert keeps["//c:c"] == "it registers itself"
    assert keeps["//d:e"] == "a plugin"
    assert keeps["@pip//f:pkg"] == ""
    assert keeps["//p:b"] is None
    assert call.find("//c:c") is not None
    assert call.find("//z:z") is None


def test_a_call_in_a_comprehension_has_no_name_of_its_own() -> None:
    call = calls()[None]

    assert (call.function, call.line) == ("made_test", 17)
    assert call.find("//p:a") is not None


def test_labels_have_one_form() -> None:
    assert absolute("x", "p") == absolute(":x", "p") == absolute("//p:x", "q") == "//p:x"
    assert absolute("//p", "q") == absolute("@//p:p", "q") == "//p:p"
