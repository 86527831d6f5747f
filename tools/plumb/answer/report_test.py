from __future__ import annotations

import io

import pytest
from rich.console import Console

from tools.plumb.answer import report
from tools.plumb.compare.access import Access
from tools.plumb.compare.affected import Affected, Comparison
from tools.plumb.compare.unowned import Decision
from tools.plumb.pools import Placement
from tools.plumb.trees.git import Tree


def made(label: str, pool: str, gpus: int, seconds: int | None, cause: str = "input") -> Affected:
    return Affected(label, Placement(pool, None, gpus, seconds, None), cause, "a/[b].py")


TESTS = [made("//a:g", "b200", 2, 30), made("//a:d", "cpu", 0, None), made("//a:c", "cpu", 0, 5)]


def text(comparison: Comparison, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    report.print_text(console, report.Answer(Tree("1", "main"), Tree("2", "topic"), comparison))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_pools_are_sorted_with_cpu_first() -> None:
    groups = report.by_pool(TESTS)

    assert [(p, [t.label for t in g]) for p, g in groups.items()] == [
        ("cpu", ["//a:c", "//a:d"]),
        ("b200", ["//a:g"]),
    ]


def test_totals_count_gpu_seconds_and_tests_that_state_none() -> None:
    assert report.totals(TESTS) == {
        "tests": 3,
        "seconds": 35,
        "gpu_seconds": 60,
        "without_seconds": 1,
    }


def test_file_names_with_brackets_are_shown_as_they_are() -> None:
    shown = text(Comparison(TESTS, 9, [], []))

    assert "a/[b].py" in shown and "3 of 9 tests affected, 35 s, 60 GPU-s" in shown
    assert "1 test without seconds" in shown


def test_tests_that_always_run_are_counted_apart() -> None:
    always = [made(f"//z:{name}", "cpu", 0, 7, "always") for name in "xyz"]
    with_others = text(Comparison([*TESTS, *always], 9, [], []))
    alone = text(Comparison(always, 9, [], []))

    assert "Always run, since they are tagged external: 3 tests, 21 s" in with_others
    assert "//z:x" not in with_others and "cpu: 2 tests, 5 s" in with_others
    assert "3 of 9 tests affected, 35 s, 60 GPU-s (1 test without seconds); 3 always run, 21 s" in (
        with_others
    )
    assert "differs between main and topic; 3 always run, 21 s." in alone


def test_one_reason_for_everything_stands_above_the_tables() -> None:
    tests = [made("//a:c", "cpu", 0, 5, "everything")]
    shown = text(Comparison(tests, 1, ["WORKSPACE changed: it steers Bazel itself"], []))

    assert shown.startswith("Every test is affected: WORKSPACE changed")
    assert "because" not in shown


def test_removed_tests_and_ignored_files_are_said() -> None:
    decision = Decision("a.md", "nothing", "documentation")
    shown = text(Comparison([], 4, [], [decision], ["//a:gone"]))

    assert "a.md affects nothing: documentation" in shown and "no longer runs: //a:gone" in shown
    assert "Nothing affected: none of 4 tests differs between main and topic." in shown


@pytest.mark.parametrize("cause", ["input", "everything"])
@pytest.mark.parametrize("pool", ["cpu", "h100"])
def test_a_label_is_never_broken_or_cut(pool: str, cause: str) -> None:
    labels = [f"//testing/{'long/' * n}package:name_of_a_test_{pool}" for n in (0, 4, 14)]
    tests = [made(label, pool, 8, 12345, cause) for label in labels]

    shown = text(Comparison(tests, 9, ["x"] if cause == "everything" else [], []), width=60)

    assert all(f" {label} " in shown for label in labels)
    if cause == "input":
        assert "a/[b].py" in shown and "because" in shown


def test_a_head_without_tests_is_said_once() -> None:
    shown = text(Comparison([], 0, ["main has no WORKSPACE"], []))

    assert shown == "Nothing affected: topic has no tests.\n"


def test_failed_tests_are_named() -> None:
    console = Console(file=io.StringIO(), width=100)
    ran = {"cpu": {"tests": 2, "bazel_exit": 3, "passed": ["//a:c"], "failed": ["//a:[d]"]}}
    report.print_outcome(console, {"analysed": None, "ran": ran, "waiting": {}, "left": {}})
    assert isinstance(console.file, io.StringIO)

    assert "failed //a:[d]" in console.file.getvalue() and "//a:c" not in console.file.getvalue()


def test_another_visibility_is_said() -> None:
    shown = text(Comparison([], 4, [], [], access=Access(["//a:lib"], ["//a:c", "//a:d"])))

    assert "Visibility changed: //a:lib" in shown and "2 targets" in shown
    assert "Nothing affected" in shown


def test_why_shows_old_and_new() -> None:
    console = Console(file=io.StringIO(), width=100)
    report.print_why(
        console,
        {
            "target": "//a:t",
            "affected": True,
            "text": "//a:l: deps",
            "file": None,
            "chain": ["//a:l", "//a:t"],
            "changes": [
                {"name": "$hash", "old": "1", "new": "2"},
                {"name": "deps", "old": None, "new": ["[x]"] + ["y" * 50] * 20},
            ],
        },
    )
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()

    assert "//a:l\n  -> //a:t" in shown
    assert (
        "$hash" not in shown
        and "- (none)" in shown
        and '+ ["[x]"' in shown
        and "characters)" in shown
    )
