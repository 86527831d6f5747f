from __future__ import annotations

import pytest

from tools.plumb.options import reach


@pytest.mark.parametrize(
    "name", ["test_output", "jobs", "local_resources", "build_tag_filters", "startup max_idle_secs"]
)
def test_what_only_prints_or_schedules_reaches_no_test(name: str) -> None:
    assert reach.of_every_test({name: ("x",)}) == {}


@pytest.mark.parametrize(
    "name", ["test_env", "define", "never_heard_of", "runs_per_test", "startup never_heard_of"]
)
def test_what_is_not_known_reaches_every_test(name: str) -> None:
    assert reach.of_every_test({name: ("x",)}) == {name: ("x",)}


def test_memory_for_the_server_is_told_from_what_changes_it() -> None:
    values = ("-Xmx4g", "-DBAZEL_TRACK_SOURCE_DIRECTORIES=1")

    assert reach.of_every_test({"startup host_jvm_args": values}) == {
        "startup host_jvm_args": values[1:]
    }


@pytest.mark.parametrize(
    ("kind", "reached"),
    [("cc_library", True), ("own_rule", True), ("py_test", False), ("genrule", False)],
)
def test_an_option_of_a_compiler_reaches_what_may_run_it(kind: str, reached: bool) -> None:
    options = {"copt": ("-O2",)}

    assert reach.of_every_test(options) == {}
    assert bool(reach.of_rule(options, kind)) == reached


def test_an_option_of_one_language_reaches_no_rule_of_another() -> None:
    options = {"javacopt": ("-g",)}

    assert reach.of_rule(options, "java_library") and not reach.of_rule(options, "cc_library")


def test_a_flag_of_the_graph_is_no_option_of_tests() -> None:
    assert reach.of_every_test({"//a:flag": ("x",)}) == {}
