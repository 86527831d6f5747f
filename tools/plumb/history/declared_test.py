"""Which declared seconds are far off, and what buildozer is told."""

import pytest

from tools.plumb.cells.model import Test
from tools.plumb.deps import build_files
from tools.plumb.deps.calls import Declared
from tools.plumb.graph import Target
from tools.plumb.history.declared import Drift, drifts, edits
from tools.plumb.history.summary import Seconds, Summary

CPU, GPU = "//a:t_cpu", "//a:t_h100"
TESTS = {CPU: Test(CPU, seconds=10), GPU: Test(GPU, "h100", "sm90", 1, seconds=20)}


def measured(label: str, p90: float, count: int = 5) -> Summary:
    own = Seconds(count, p90 - 0.5, p90, p90 - 1, p90 + 1)
    return Summary(label, "cpu", count, 0, 0, own, 0, "PASSED")


def found(*summaries: Summary, **limits: float) -> list[str]:
    given = {"least_runs": 3, "threshold": 0.25, "slack": 1.0, **limits}
    return [d.test.label for d in drifts(TESTS, summaries, **given)]  # type: ignore[arg-type]


def test_only_what_is_off_by_more_than_share_and_slack() -> None:
    assert found(measured(CPU, 12.4), measured(GPU, 15.1)) == []
    assert found(measured(CPU, 12.6), measured(GPU, 14.9)) == [CPU, GPU]
    assert found(measured(CPU, 12.6), slack=5) == []
    assert found(measured(CPU, 99, count=2)) == []
    assert found(measured("//gone:test", 99)) == []


def edit_of(source: str, *changed: Drift, name: str | None = "t") -> tuple[str, str]:
    calls = [call for call in build_files.read(source, "a") if call.name == name]
    targets = [Target(label, "rule", "py_test", {}, ()) for label in TESTS]
    call = Declared("a", "t", "a/BUILD.bazel", calls[0] if calls else None, targets)
    (made,) = edits(changed, TESTS, [call], {"a/BUILD.bazel": source})
    return made.command, made.by_hand


def drift(label: str, p90: float) -> Drift:
    return Drift(TESTS[label], Seconds(5, p90, p90, p90, p90))


def test_a_dict_by_pool_keeps_the_other_pools() -> None:
    source = 'layer_test(name = "t", seconds = {"cpu": 10, "h100": 20})\n'
    command, _ = edit_of(source, drift(GPU, 31.2))
    assert command == 'set seconds {"cpu":10,"h100":32}|//a:t'


def test_both_pools_of_a_call_are_one_edit() -> None:
    source = 'layer_test(name = "t", seconds = {"cpu": 10, "h100": 20})\n'
    command, _ = edit_of(source, drift(CPU, 4.0), drift(GPU, 31.2))
    assert command == 'set seconds {"cpu":4,"h100":32}|//a:t'


def test_a_number_and_a_tag_are_replaced() -> None:
    assert edit_of('unit_test(name = "t", seconds = 8)\n', drift(CPU, 2.1))[0] == (
        "set seconds 3|//a:t"
    )
    source = 'py_test(name = "t", tags = ["cpu", "seconds:10"])\n'
    assert edit_of(source, drift(CPU, 0.2))[0] == "replace tags seconds:10 seconds:1|//a:t"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ('layer_test(name = "t", seconds = TIMES)\n', "a/BUILD.bazel:1 writes seconds that are no"),
        (
            'layer_test(name = "t", seconds = {"cpu": N})\n',
            "a/BUILD.bazel:1 writes seconds that are no",
        ),
        (
            'layer_test(name = "t", seconds = {"h100": 3})\n',
            "a/BUILD.bazel:1 writes seconds that are no",
        ),
        ('unit_test(name = "t")\n', "a/BUILD.bazel:1 writes none; add seconds = 99 there"),
        ('other(name = "u")\n', "holds no call named 't'"),
    ],
)
def test_what_cannot_be_edited_is_said(source: str, why: str) -> None:
    command, by_hand = edit_of(source, drift(CPU, 99.0))
    assert command == "" and why in by_hand


def test_a_test_that_no_call_declares_is_said() -> None:
    (made,) = edits([drift(CPU, 99.0)], TESTS, [], {})
    assert (made.call, made.by_hand) == (CPU, "no call of a BUILD file declares it")
