"""Plans: complete, not earlier than their bound, and near it."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.plumb.cells.model import Test
from tools.plumb.history.summary import Seconds, Summary
from tools.plumb.plan import balance, exact, gangs
from tools.plumb.plan.bound import lower_bound
from tools.plumb.plan.choose import choose
from tools.plumb.plan.job import Job, Pool
from tools.plumb.plan.plan import Plan, fail_fast, make


def jobs(*seconds: float, width: int = 1) -> list[Job]:
    return [Job(f"//t:{number}", each, width) for number, each in enumerate(seconds)]


def require_sound(plan: Plan, given_jobs: Sequence[Job]) -> None:
    """Every test runs once, no host is overbooked, and nothing is promised below the bound."""
    pool = plan.pool
    placed = [(e.host, one) for e in plan.executors for one in e.placed]
    assert sorted(one.job.label for _, one in placed) == sorted(j.label for j in given_jobs)
    for host, one in placed:
        others = [p for h, p in placed if h == host and p.start <= one.start < p.end]
        assert sum(p.job.width for p in others) <= pool.slots
        assert one.end - one.start >= pool.cost(one.job) - 1e-9
    assert plan.finish >= plan.bound.seconds - 1e-6
    assert plan.finish <= plan.plain + 1e-6


@settings(max_examples=150, deadline=None)
@given(
    seconds=st.lists(st.integers(0, 300), min_size=1, max_size=40),
    hosts=st.integers(1, 4),
    slots=st.sampled_from([1, 2, 4, 8]),
    start=st.sampled_from([0, 30]),
    saved=st.sampled_from([0, 10]),
    data=st.data(),
)
def test_every_plan_is_sound(
    seconds: list[int], hosts: int, slots: int, start: int, saved: int, data: st.DataObject
) -> None:
    widths = st.sampled_from([w for w in (1, 2, 4, 8) if w <= slots])
    given_jobs = [Job(f"//t:{i}", float(each), data.draw(widths)) for i, each in enumerate(seconds)]
    pool = Pool("p", hosts, slots, start, saved)
    require_sound(make(given_jobs, pool), given_jobs)


def test_longest_first_is_beaten_where_it_is_known_to_be_wrong() -> None:
    # Longest-first puts 3 and 3 apart, and ends with 3 + 2 + 2; 3 + 3 beside 2 + 2 + 2 is better.
    plan = make(jobs(3, 3, 2, 2, 2), Pool("p", 2))
    assert (plan.plain, plan.finish, plan.bound.seconds) == (7, 6, 6)


def test_integer_programming_closes_a_gap_with_proof() -> None:
    # Whole seconds cannot be spread in thirds: nothing is done before 13, though the work is 38/3.
    plan = make(jobs(9, 7, 6, 5, 4, 4, 3), Pool("p", 3))
    assert (plan.plain, plan.finish) == (14, 13)
    assert plan.bound.seconds == pytest.approx(13)
    assert "HiGHS" in plan.bound.why


@pytest.mark.parametrize("seed", range(12))
def test_the_exact_search_is_right(seed: int) -> None:
    rng = random.Random(seed)
    costs = [rng.randint(1, 30) for _ in range(rng.randint(1, 8))]
    slots = rng.randint(1, 3)

    def best(number: int, loads: tuple[int, ...]) -> int:
        if number == len(costs):
            return max(loads)
        return min(
            best(number + 1, (*loads[:s], loads[s] + costs[number], *loads[s + 1 :]))
            for s in range(slots)
        )

    found = exact.solve(costs, slots)
    assert found is not None
    loads = [sum(costs[i] for i in own) for own in found.bins]
    assert max(loads) == pytest.approx(best(0, (0,) * slots)) == pytest.approx(found.bound)


@pytest.mark.parametrize(
    ("given_jobs", "pool", "seconds", "why"),
    [
        (jobs(4, 4, 4), Pool("p", 2), 8, "share 2 places"),
        (jobs(9, 1, 1), Pool("p", 2), 9, "longest test, //t:0"),
        (jobs(3, 3, 3, 3), Pool("p", 2), 6, "whole work"),
        (jobs(5, 5, 5, width=5), Pool("p", 2, 8), 10, "5 GPUs or more that share 2 places"),
        (jobs(8, width=4), Pool("p", 1, 8, start_seconds=30), 38, "longest"),
        (jobs(20, 20, 20), Pool("p", 1, 1, start_seconds=5, saved_seconds=10), 45, "whole work"),
        ([*jobs(10, width=4), *jobs(10, 10, 10, width=2)], Pool("p", 1, 4), 25, "whole work"),
        ([*jobs(10, width=4), *jobs(10, width=3)], Pool("p", 1, 4), 20, "3 GPUs or more that"),
    ],
)
def test_bounds(given_jobs: list[Job], pool: Pool, seconds: float, why: str) -> None:
    found = lower_bound(given_jobs, pool)
    assert found.seconds == pytest.approx(seconds)
    assert why in found.why


def test_what_a_further_test_saves_counts_once_a_slot() -> None:
    plan = make(jobs(20, 20, 20), Pool("p", 1, 1, start_seconds=5, saved_seconds=10))
    assert [(one.start, one.end) for one in plan.executors[0].placed] == [
        (0, 25),
        (25, 35),
        (35, 45),
    ]


def test_tests_of_several_gpus_leave_no_slot_idle_that_others_can_use() -> None:
    # Two of four GPUs and four of two on hosts of four: 10 + 10 on one, 10 + 10 on the other.
    mixed = [*jobs(10, 10, width=4), *(Job(f"//n:{i}", 10, 2) for i in range(4))]
    plan = make(mixed, Pool("p", 2, 4))
    require_sound(plan, mixed)
    assert plan.finish == 20 == plan.bound.seconds


def test_a_queue_gives_a_test_of_two_gpus_to_the_host_where_both_are_free_first() -> None:
    # 8 and 3 on one host, 7 of two GPUs on the other, which is free for the next at 7: 7 + 4.
    widths = {4: 2, 3: 1, 8: 1, 7: 2}
    mixed = [Job(f"//t:{s}", s, width) for s, width in widths.items()]
    placed = gangs.longest_first([*mixed, Job("//t:last", 3, 2)], Pool("p", 2, 2))
    assert max(one.end for _, one in placed) == 11


def test_an_order_near_the_best_fills_the_host() -> None:
    sizes = [(11, 4), (15, 1), (16, 3), (5, 4), (5, 1), (6, 3)]
    mixed = [Job(f"//t:{i}", s, width) for i, (s, width) in enumerate(sizes)]
    plan = make(mixed, Pool("p", 1, 4))
    # The tests of three GPUs and more exclude one another: 11 + 16 + 5 + 6.
    assert plan.finish == plan.bound.seconds == 38


@pytest.mark.parametrize(
    ("costs", "slots", "latest"),
    [
        ([8, 13, 14, 6, 12, 18, 12], 2, 42),
        ([12, 12, 15, 6, 13, 15, 17, 8], 3, 33),
        ([3, 3, 2, 5, 10, 13, 8], 3, 15),
    ],
)
def test_moves_swaps_and_multifit_reach_the_mean(costs: list[int], slots: int, latest: int) -> None:
    assert latest == -(-sum(costs) // slots)
    bins = balance.balance(costs, slots)
    assert max(sum(costs[number] for number in own) for own in bins) == latest


def test_longest_first_takes_the_longest_first() -> None:
    assert balance.longest_first([1, 1, 2], 2) == [[2], [0, 1]]


def test_few_runs_say_little_of_a_failure_rate() -> None:
    tests = [Test(f"//t:{n}", seconds=9) for n in ("a", "b", "c", "d")]
    found = {
        "//t:a": Summary("//t:a", "cpu", 2, 0, 1, Seconds(1, 3, 4, 3, 4), 0, "PASSED"),
        "//t:b": Summary("//t:b", "cpu", 900, 4, 5, None, 0, "FAILED"),
        "//t:c": Summary("//t:c", "cpu", 900, 0, 0, None, 0, "PASSED"),
    }
    chosen = choose([*tests, Test("//t:e", "h100", gpus=2)], found)
    assert [(j.seconds, j.failure_rate) for j in chosen.jobs["cpu"]] == [
        (4.0, 2 / 102),
        (9.0, 10 / 1000),
        (9.0, 0.0),
        (9.0, 0.0),
    ]
    assert chosen.jobs["h100"] == (Job("//t:e", 60.0, 2),)
    assert chosen.guessed == ("//t:e",)


def test_the_likeliest_failure_a_second_runs_first() -> None:
    given_jobs = [
        Job("//a:long", 100, 1, 0.2),
        Job("//a:never", 50),
        Job("//a:short", 10, 1, 0.1),
        Job("//a:never_longer", 60),
    ]
    assert [job.label for job in fail_fast(given_jobs)] == [
        "//a:short",
        "//a:long",
        "//a:never_longer",
        "//a:never",
    ]


def test_a_test_that_no_host_can_take_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"//t:0 takes 4 GPUs of one host, pool 'p' has hosts of 2"
    ):
        make(jobs(1, width=4), Pool("p", 3, 2))


def test_fewest_slots_for_a_limit() -> None:
    assert balance.fewest([3, 3, 2, 2, 2], 6) == 2
    assert balance.fewest([3, 3, 2, 2, 2], 5) == 3
    # First-fit takes three: 20 + 18, 14 + 11 + 9, 8. But 20 + 11 + 9 and 18 + 14 + 8 are 40 each.
    assert balance.fewest([8, 14, 11, 18, 20, 9], 40) == 2
    with pytest.raises(ValueError, match="a test takes 9 s"):
        balance.fewest([9, 1], 5)


def test_the_same_tests_give_the_same_plan() -> None:
    rng = random.Random(3)
    given_jobs = [Job(f"//t:{i}", rng.randint(1, 99), rng.choice([1, 2, 4])) for i in range(30)]
    first, second = (make(given_jobs, Pool("p", 2, 4)) for _ in range(2))
    assert first == second
