"""Problems by hand, and the line between those for training and those held out."""

import random
import re
from itertools import islice

import pytest

from testing.e2e.tasks.facts import CAPITALS
from testing.e2e.tasks.problems import TASKS, Problem, capital, copying, problems, sorting
from testing.e2e.tasks.problems import _worked_sum as worked_sum


@pytest.mark.parametrize(
    ("a", "b", "worked"),
    [
        (348, 275, "8+5=13,4+7+1=12,3+2+1=6;623"),
        (0, 0, "0+0=0,0+0=0,0+0=0;0"),
        (999, 1, "9+1=10,9+0+1=10,9+0+1=10;1000"),
        (120, 34, "0+4=4,2+3=5,1+0=1;154"),
    ],
)
def test_sums_show_their_carries(a: int, b: int, worked: str) -> None:
    assert worked_sum(a, b) == worked


def test_the_letter_names_the_capital() -> None:
    rng = random.Random(1)
    for problem in (capital(rng) for _ in range(200)):
        country, listed = problem.prompt.removesuffix(":").split("? ")
        letter, name = problem.answer.removeprefix(" ").split(" ", 1)
        assert name == CAPITALS[country]
        assert f"{letter} {name}" in listed
        parts = re.split(r" ?\b([ABCD]) ", listed)
        assert parts[1::2] == ["A", "B", "C", "D"]
        assert len({*parts[2::2]}) == 4 and {*parts[2::2]} <= {*CAPITALS.values()}


def test_lists_are_copied_and_sorted() -> None:
    rng = random.Random(2)
    for _ in range(200):
        copied, ordered = copying(rng), sorting(rng)
        assert copied.prompt == f"copy{copied.answer}:"
        items = ordered.prompt.removeprefix("sort ").removesuffix(":").split()
        assert ordered.answer.split() == sorted(items)
        assert len(set(items)) == len(items)


def test_what_is_held_out_is_never_trained_on() -> None:
    trained = {p.prompt for p in islice(problems(1, held_out=False), 4000)}
    tested = {p.prompt for p in islice(problems(2, held_out=True), 4000)}
    assert not trained & tested
    share = sum(p.held_out for p in (sorting(random.Random(i)) for i in range(4000))) / 4000
    assert share == pytest.approx(1 / 8, abs=0.03)  # six standard deviations of a share of 4,000


def test_tasks_come_in_turn_and_by_seed() -> None:
    first, again = (list(islice(problems(5, held_out=True), 12)) for _ in range(2))
    assert first == again
    assert [p.task for p in first] == [*TASKS] * 3
    assert all(isinstance(p, Problem) for p in first)
    chosen = islice(problems(5, held_out=True, tasks=("copying",)), 5)
    assert {p.task for p in chosen} == {"copying"}


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(ValueError, match="'sums' is unknown; wanted one of addition, capital"):
        next(problems(1, held_out=True, tasks=("sums",)))
