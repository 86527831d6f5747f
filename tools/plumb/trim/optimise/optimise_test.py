"""The optimiser beside every subset, in problems small enough for that."""

import itertools
import random
import time

import numpy as np
import pytest

from tools.plumb.cells.model import LABELLED, NIGHTLY, PER_COMMIT, Claim, Model, Test
from tools.plumb.errors import PlumbError
from tools.plumb.trim.change import Merge
from tools.plumb.trim.optimise.budget import Within
from tools.plumb.trim.optimise.choice import choose
from tools.plumb.trim.optimise.cover import Answer
from tools.plumb.trim.optimise.problem import Problem, of_model
from tools.plumb.trim.optimise.result import Wish


def made_up(seed: int, tests: int = 9, claims: int = 8, most: int = 4) -> Model:
    rng = random.Random(seed)
    found = {}
    for number in range(tests):
        arch = rng.choice(["cpu", "sm90"])
        label = f"//t:{number}"
        found[label] = Test(
            label,
            pool="cpu" if arch == "cpu" else "h100",
            arch=arch,
            gpus=0 if arch == "cpu" else rng.choice([1, 2]),
            seconds=rng.randint(1, 30),
            cadence=rng.choice([PER_COMMIT, NIGHTLY, LABELLED]),
            covers=tuple(f"c{n}" for n in rng.sample(range(claims), rng.randint(1, most))),
        )
    return Model({f"c{n}": Claim(f"c{n}") for n in range(claims)}, found)


def subsets(problem: Problem) -> list[np.ndarray]:
    count = len(problem.columns)
    return [np.array(taken) for taken in itertools.product([False, True], repeat=count)]


@pytest.mark.parametrize("seed", range(12))
def test_the_cheapest_cover_is_what_trying_every_subset_finds(seed: int) -> None:
    model = made_up(seed)
    problem = of_model(model)
    costs = [
        int(problem.costs[taken].sum())
        for taken in subsets(problem)
        if problem.covers[:, taken].any(axis=1).all()
    ]
    choice = choose(model, (), Wish())
    assert choice.proof.value == min(costs)
    assert choice.proof.proven and choice.proof.bound == pytest.approx(min(costs))
    assert choice.kept == len(problem.cells) and not choice.given_up


@pytest.mark.parametrize("seed", range(6))
def test_a_price_is_what_the_cheapest_choice_saves_without_the_claim(seed: int) -> None:
    model = made_up(seed)
    best = choose(model, (), Wish())
    for price in best.prices:
        waived = {cell for cell in model.cells if cell.claim in price.claims}
        other = choose(model, (), Wish(waived=waived))
        assert price.gpu_seconds == best.gpu_seconds - other.gpu_seconds
        assert price.cpu_seconds == best.cpu_seconds - other.cpu_seconds


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("budget", [0, 20, 60])
def test_the_most_cells_in_a_budget_are_what_trying_every_subset_finds(
    seed: int, budget: int
) -> None:
    model = made_up(seed)
    problem = of_model(model, weights={"c0": 5})
    gpu = np.array([column.gpu_seconds for column in problem.columns])
    weights = {
        int(problem.weights[problem.covers[:, taken].any(axis=1)].sum())
        for taken in subsets(problem)
        if gpu[taken].sum() <= budget
    }
    choice = choose(model, (), Wish(budget=budget, weights={"c0": 5}))
    assert choice.proof.value == max(weights)
    assert choice.proof.proven
    assert choice.gpu_seconds <= budget


def simple(*tests: Test) -> Model:
    return Model({}, {test.label: test for test in tests})


def gpu_test(label: str, seconds: int | None, *covers: str) -> Test:
    return Test(label, "h100", "sm90", 1, seconds, covers=covers)


def test_a_merge_is_taken_where_it_is_cheaper_than_both() -> None:
    model = simple(gpu_test("//a", 200, "x"), gpu_test("//b", 150, "y"))
    choice = choose(model, [Merge(("//a", "//b"))], Wish())
    assert choice.change.merges == (Merge(("//a", "//b"), 200),)
    assert choice.change.drop == () and choice.gpu_seconds == 200


def test_what_has_to_stay_stays_and_a_budget_below_it_is_refused() -> None:
    model = simple(gpu_test("//a", 100, "x"), gpu_test("//b", 10, "x"))
    assert choose(model, (), Wish()).change.drop == ("//a",)
    kept = choose(model, (), Wish(keep={"//a"}))
    assert kept.change.drop == ("//b",) and kept.gpu_seconds == 100
    within = choose(model, (), Wish(keep={"//a"}, budget=100))
    assert within.gpu_seconds == 100
    with pytest.raises(PlumbError, match="--budget 99: what has to be kept takes 100 GPU-seconds"):
        choose(model, (), Wish(keep={"//a"}, budget=99))


def test_a_rarer_test_does_not_stand_in_for_one_of_each_commit() -> None:
    nightly = Test("//b", "h100", "sm90", 1, 1, NIGHTLY, covers=("x",))
    choice = choose(simple(gpu_test("//a", 100, "x"), nightly), (), Wish())
    assert choice.change.drop == ("//b",)


def test_tests_without_seconds_are_named() -> None:
    choice = choose(simple(gpu_test("//a", None, "x"), gpu_test("//b", 5, "x")), (), Wish())
    assert choice.undeclared == ("//a",) and choice.change.drop == ("//b",)


def test_a_negative_budget_and_nothing_to_keep_are_refused() -> None:
    with pytest.raises(PlumbError, match="--budget -1: wanted GPU-seconds of 0 or more"):
        choose(simple(gpu_test("//a", 5, "x")), (), Wish(budget=-1))
    with pytest.raises(PlumbError, match="there is nothing to keep"):
        choose(simple(gpu_test("//a", 5)), (), Wish())


def test_a_test_that_has_to_stay_and_covers_nothing_is_paid_for() -> None:
    model = simple(gpu_test("//a", 7, "x"), gpu_test("//b", 10))
    choice = choose(model, (), Wish(keep={"//b"}))
    assert (choice.gpu_seconds, choice.proof.value, choice.change.drop) == (17, 17, ())


def test_a_test_that_never_runs_costs_nothing_if_it_stays() -> None:
    idle = Test("//b", "h100", "sm90", 1, 10, covers=("x",), idle="disabled")
    choice = choose(simple(gpu_test("//a", 7, "x"), idle), (), Wish(keep={"//b"}))
    assert (choice.gpu_seconds, choice.change.drop) == (7, ())


def test_a_test_is_in_one_merge_at_most() -> None:
    model = simple(*(gpu_test(f"//{n}", 100, n) for n in "abc"))
    merges = [Merge(("//a", "//b")), Merge(("//b", "//c")), Merge(("//a", "//c"))]
    choice = choose(model, merges, Wish())
    merged = [label for merge in choice.change.merges for label in merge.labels]
    assert len(merged) == len(set(merged)) == 2
    assert choice.gpu_seconds == 200


def test_of_choices_worth_the_same_the_cheapest_is_taken() -> None:
    model = simple(gpu_test("//a", 90, "x"), gpu_test("//b", 10, "x"), gpu_test("//c", 20, "x"))
    assert choose(model, (), Wish(budget=1000)).change.drop == ("//a", "//c")


@pytest.mark.parametrize(
    ("bound", "proven"), [(10.0, True), (9.001, True), (9.0, False), (5.0, False)]
)
def test_a_cost_is_proven_if_no_whole_second_lies_below_it(bound: float, proven: bool) -> None:
    found = Answer(np.ones(1, bool), 10, bound, 0)
    assert found.proven is proven
    assert found.gap == pytest.approx((10 - bound) / 10)


@pytest.mark.parametrize(("bound", "proven"), [(10.0, True), (10.999, True), (11.0, False)])
def test_a_weight_is_proven_if_no_whole_one_lies_above_it(bound: float, proven: bool) -> None:
    found = Within(np.ones(1, bool), np.ones(1, bool), 10, bound, 0)
    assert found.proven is proven
    assert found.gap == pytest.approx((bound - 10) / 10)


def test_claims_that_one_test_alone_holds_are_priced_together() -> None:
    choice = choose(simple(gpu_test("//a", 10, "x", "y")), (), Wish())
    prices = {price.claims: price.gpu_seconds for price in choice.prices}
    assert prices == {("x", "y"): 10, ("x",): 0, ("y",): 0}


def test_500_tests_of_2000_cells_are_solved_and_every_claim_priced_in_ten_seconds() -> None:
    model = made_up(1, tests=500, claims=900, most=10)
    begun = time.process_time()
    choice = choose(model, (), Wish())
    assert time.process_time() - begun < 10
    assert choice.proof.columns == 500 and choice.proof.rows >= 2000
    assert choice.proof.proven and not choice.unpriced
    assert all(price.exact for price in choice.prices)
