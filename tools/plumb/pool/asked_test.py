import pytest

from tools.plumb.errors import PlumbError
from tools.plumb.options.rc import Line
from tools.plumb.pool import asked
from tools.plumb.pool.asked import Asked
from tools.plumb.pool.flags import Flags

VALUED = frozenset({"bazelrc", "compilation_mode", "config", "jobs", "test_tag_filters"})
FLAGS = Flags(VALUED, {"c": "compilation_mode", "j": "jobs", "k": "keep_going"})


def parse(text: str) -> Asked:
    return asked.parse(text.split(), lambda: FLAGS)


def unasked() -> Flags:
    raise AssertionError("Bazel need not be asked")


def test_a_command_line_falls_into_its_parts() -> None:
    words = ["--x=y", "test", "--config=remote", "//a", "--jobs=2", "--", "-//b:c"]

    found = asked.parse(words, unasked)

    assert found == Asked(
        ("--x=y",), "test", ("--config=remote", "--jobs=2"), ("//a", "-//b:c"), (*words[2:],)
    )
    assert found.configs == ["remote"]


def test_a_value_behind_a_space_is_no_target_and_words_stay_as_they_are() -> None:
    found = parse("--bazelrc x test -c opt -k --config remote --test_tag_filters -gpu //a/... -- d")

    assert found.startup == ("--bazelrc", "x")
    assert found.options == ("-c=opt", "-k", "--config=remote", "--test_tag_filters=-gpu")
    assert found.targets == ("//a/...", "d")
    assert found.configs == ["remote"]
    kept = "-c opt -k --config remote --test_tag_filters -gpu //a/... -- d"
    assert " ".join(found.words) == kept


def test_an_option_without_its_value_is_named() -> None:
    with pytest.raises(PlumbError, match="--config has no value: write --config=VALUE"):
        parse("test //a --config")


@pytest.mark.parametrize("text", ["", "query //...", "--x"])
def test_what_bazel_should_do_has_to_be_said(text: str) -> None:
    with pytest.raises(PlumbError, match="wanted one of test"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("test //a", "-gpu"),
        ("test //a --config=wide", "h100"),
        ("test //a --config wide --test_tag_filters -slow", "-slow"),
        ("test //a --test_tag_filters=-slow --config=wide", "h100"),
        ("test //a --test_tag_filters=", ""),
    ],
)
def test_the_last_filters_hold_those_of_the_bazelrc_too(text: str, filters: str) -> None:
    lines = [
        Line("test", "", ("--test_tag_filters=-gpu",)),
        Line("test", "wide", ("--test_tag_filters=h100",)),
    ]

    assert asked.filters_of(lines, parse(text)) == filters


def test_without_filters_all_pass() -> None:
    assert asked.filters_of([], parse("test //a")) == ""
