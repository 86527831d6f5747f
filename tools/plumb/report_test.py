from __future__ import annotations

import io

from rich.console import Console

from tools.plumb import report
from tools.plumb.access import Access
from tools.plumb.affected import Affected, Comparison
from tools.plumb.git import Tree
from tools.plumb.pools import Placement
from tools.plumb.unowned import Decision


def made(label: str, pool: str, gpus: int, seconds: int | None, cause: str = "input") -> Affected:
    return Affected(label, Placement(pool, None, gpus, seconds, None), cause, "a/[b].py")


TESTS = [made("//a:g", "b200", 2, 30), made("//a:d", "cpu", 0, None), made("//a:c", "cpu", 0, 5)]


def text(comparison: Comparison) -> str:
    console = Console(file=io.StringIO(), width=100)
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
    assert "1 tests state no seconds" in shown


def test_tests_that_always_run_are_counted_apart() -> None:
    always = [made(f"//z:{name}", "cpu", 0, 7, "always") for name in "xyz"]
    with_others = text(Comparison([*TESTS, *always], 9, [], []))
    alone = text(Comparison(always, 9, [], []))

    assert "Always run, since they are tagged external: 3 tests, 21 s" in with_others
    assert "//z:x" not in with_others and "cpu: 2 tests, 5 s" in with_others
    assert "3 of 9 tests affected, and 3 that always run, 35 s, 60 GPU-s" in with_others
    assert "differs between main and topic, and 3 that always run." in alone


def test_one_reason_for_everything_stands_above_the_tables() -> None:
    tests = [made("//a:c", "cpu", 0, 5, "everything")]
    shown = text(Comparison(tests, 1, ["WORKSPACE changed: it steers Bazel itself"], []))

    assert shown.startswith("Every test is affected: WORKSPACE changed")
    assert "because" not in shown


def test_removed_tests_and_ignored_files_are_said() -> None:
    decision = Decision("a.md", "nothing", "documentation")
    shown = text(Comparison([], 4, [], [decision], ["//a:gone"]))

    assert "a.md affects nothing: documentation" in shown and "//a:gone" in shown
    assert "Nothing affected: none of 4 tests differs between main and topic." in shown


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
            "changes": [{"name": "deps", "old": None, "new": ["[x]"] + ["y" * 50] * 20}],
        },
    )
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()

    assert "//a:l\n  -> //a:t" in shown
    assert "- (none)" in shown and '+ ["[x]"' in shown and "characters)" in shown
