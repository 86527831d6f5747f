"""Runs from attempts, and their statistics."""

import pytest

from tools.plumb.history.store import Attempt, Execution
from tools.plumb.history.summary import Seconds, runs, seconds, summaries


def attempt(
    start: int,
    status: str = "PASSED",
    ms: int = 1000,
    *,
    invocation: int | None = None,
    run: int = 1,
    shard: int = 1,
    attempt: int = 1,
) -> Attempt:
    """One of `//a:t`, in an invocation of its own unless another is named."""
    own = start if invocation is None else invocation
    return Attempt(
        "//a:t", start, ms, status, "cpu", str(own), run=run, shard=shard, attempt=attempt
    )


def test_a_failed_attempt_before_a_passing_one_is_a_flake_and_costs_nothing() -> None:
    (run,) = runs(
        [
            attempt(1, "FAILED", 9000, invocation=7, attempt=1),
            attempt(2, ms=2000, invocation=7, attempt=2),
        ]
    )
    assert (run.status, run.ms, run.attempts) == ("FLAKY", 2000, 2)


def test_a_test_that_failed_every_attempt_failed() -> None:
    (run,) = runs([attempt(n, "FAILED", invocation=7, attempt=n) for n in (1, 2, 3)])
    assert run.status == "FAILED"


def test_shards_are_added_up_and_one_that_times_out_is_the_runs_status() -> None:
    (run,) = runs(
        [
            attempt(1, ms=2000, invocation=7, shard=1),
            attempt(2, "TIMEOUT", 5000, invocation=7, shard=2),
        ]
    )
    assert (run.ms, run.status, run.shards) == (7000, "TIMEOUT", 2)


def test_a_run_of_which_a_cache_served_some_shards_is_left_out() -> None:
    found = list(
        runs(
            [
                attempt(1, invocation=7, shard=1),
                attempt(2, invocation=7, shard=2),
                attempt(9, invocation=8, shard=2),
            ]
        )
    )
    assert [run.start_ms for run in found] == [1]


def test_runs_per_test_are_runs_of_their_own() -> None:
    assert len(list(runs([attempt(n, invocation=7, run=n) for n in (1, 2)]))) == 2


def test_seconds_are_those_of_passing_runs() -> None:
    (one,) = summaries(runs([attempt(1), attempt(2, "FAILED", 90_000), attempt(3, ms=3000)]))
    assert one.seconds is not None
    assert (one.seconds.count, one.seconds.median) == (2, 2.0)
    assert one.seconds.p90 == pytest.approx(2.8)
    assert (one.runs, one.failed, one.flaky, one.last_status) == (3, 1, 0, "PASSED")


def test_a_test_that_never_passed_has_no_seconds() -> None:
    (one,) = summaries(runs([attempt(1, "FAILED")]))
    assert one.seconds is None


def test_p90_lies_between_order_statistics() -> None:
    # Of 1..11 the tenth of eleven: 10.
    assert seconds([float(n) for n in range(1, 12)]).p90 == pytest.approx(10.0)
    assert seconds([4.0]) == Seconds(1, 4.0, 4.0, 4.0, 4.0)


def test_a_run_without_verdict_is_not_counted() -> None:
    assert not list(summaries(runs([attempt(1, "NO_STATUS")])))


def test_two_first_attempts_of_one_invocation_are_two_runs() -> None:
    # As two invocations whose lines alternate give them; each needed a second attempt once.
    found = runs(
        [
            attempt(1, "FAILED", invocation=7),
            attempt(2, ms=3000, invocation=7),
            attempt(3, ms=2000, invocation=7, attempt=2),
        ]
    )
    assert [(run.status, run.ms) for run in found] == [("FLAKY", 2000), ("PASSED", 3000)]


def sharded(start: int, shards: int, bad: str = "") -> list[Attempt]:
    """One invocation of `//a:t` in so many shards; `bad`: the status of the last."""
    return [
        attempt(start, bad if bad and n == shards else "PASSED", invocation=start, shard=n)
        for n in range(1, shards + 1)
    ]


def test_runs_after_a_lowered_number_of_shards_count() -> None:
    before = sharded(1, 4)
    after = [one for n in range(20) for one in sharded(10 + n, 2, "FAILED" if n % 2 else "")]
    (found,) = summaries(runs([*before, *after]))
    assert (found.runs, found.failed, found.last_status) == (21, 10, "FAILED")
    assert found.seconds is not None
    # One of four shards and ten of two, a second each.
    assert (found.seconds.count, found.seconds.high, found.seconds.median) == (11, 4.0, 2.0)


def test_a_run_of_which_a_cache_served_shards_has_a_verdict_and_no_seconds() -> None:
    shared = {Execution("//a:t", "", str(n), 1): {1: 9000} for n in (10, 20)}
    failed = attempt(10, "FAILED", invocation=10, shard=2)
    passed = attempt(20, invocation=20, shard=2)
    (found,) = summaries(runs([*sharded(1, 2), failed, passed], shared))
    assert (found.runs, found.failed, found.last_status) == (3, 1, "PASSED")
    assert found.seconds == Seconds(1, 2.0, 2.0, 2.0, 2.0)


def test_an_invocation_that_was_cut_off_is_no_run_of_fewer_shards() -> None:
    cut = sharded(10, 4)[:2]
    found = list(runs([*sharded(1, 4), *cut, *sharded(20, 4)], unended={"10"}))
    assert [run.start_ms for run in found] == [1, 20]
    # Of what ran before, a failure is one, whatever the other shards would have said.
    late = [attempt(10, "FAILED", invocation=10, shard=2)]
    found = list(runs([*sharded(1, 4), *late], unended={"10"}))
    assert [run.status for run in found] == ["PASSED", "FAILED"]
    # Where nothing else is known of the test, and where it ran whole, it counts.
    assert len(list(runs(cut, unended={"10"}))) == 1
    assert len(list(runs([*sharded(1, 2), *cut], unended={"10"}))) == 2
