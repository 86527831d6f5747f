"""Wrong outputs are read as what they are, and right ones, or unknown ones, as nothing."""

from dataclasses import replace

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.attention.arithmetic import FLOAT32, TENSOR_CORES, Arithmetic
from testing.oracles.attention.dense import Request, Rule, attend
from testing.oracles.attention.error_model import RowNoise, attention_noise
from testing.oracles.attention.masks import depths, tree_of
from testing.oracles.attention.paging import Int64
from testing.oracles.attention.readings import explain
from testing.oracles.attention.scores import RowComparison
from testing.oracles.attention.suspects import suspects
from testing.oracles.rounding import BF16, round_to

RULES = {
    "dense": Rule(4, 2, 0.125),
    "window": Rule(4, 2, 0.125, window=9),
    "cap": Rule(4, 2, 0.125, soft_cap=3.0),
    "sinks": Rule(4, 2, 0.125, sinks=np.array([-1.0, 0.0, 2.0, 3.0])),
}
SCALES = (0.04, 0.03)


def request(seed: int, queries: int, keys: int, tree: bool = False) -> Request:
    rng = np.random.default_rng(seed)
    shapes = ((queries, 4, 64), (keys, 2, 64), (keys, 2, 64))
    q, k, v = (round_to(rng.standard_normal(s), BF16) for s in shapes)
    if not tree:
        return Request(2 * q, k, v)
    mask = tree_of([-1, 0, 0, 1, 2, 2, 3][:queries])
    return Request(2 * q, k, v, mask, keys - queries + depths(mask))


def read(
    wrong: Float64,
    asked: Request,
    rule: Rule,
    scales: tuple[float, float] | None = None,
    arithmetic: Arithmetic = FLOAT32,
) -> list[str]:
    """What is said of an output (S, Hq, Dv)."""
    right = attend(asked, rule)
    noise: RowNoise = attention_noise(right, arithmetic, BF16)
    rows: Int64 = np.zeros(noise.shared.shape, np.int64)
    comparison = RowComparison(wrong, right.output, noise, BF16, {"gain": (["all"], rows)})
    found = explain([asked], rule, comparison, rows[:, 0], 8, scales)
    return [reading.name for reading in found]


CASES = [
    (name, drafts, suspect)
    for name, rule in RULES.items()
    for drafts in (False, True)
    for suspect, _ in suspects(request(1, 5, 30, drafts), rule, SCALES)
]


@pytest.mark.parametrize(("name", "drafts", "suspect"), CASES)
def test_every_suspect_is_recognised(name: str, drafts: bool, suspect: str) -> None:
    asked, rule = request(1, 5, 30, drafts), RULES[name]
    wrong = round_to(dict(suspects(asked, rule, SCALES))[suspect], BF16)
    right = round_to(attend(asked, rule).output, BF16)
    # A chain's mask is no tree's, but windows of few positions may show the same.
    if np.array_equal(wrong, right):
        assert suspect == "the window counts drafts by slot and not by position"
        return
    assert suspect in read(wrong, asked, rule, SCALES)


def test_a_right_output_has_no_reading() -> None:
    asked, rule = request(2, 5, 30), RULES["dense"]
    assert read(round_to(attend(asked, rule).output, BF16), asked, rule) == []


def test_noise_has_no_reading() -> None:
    asked, rule = request(3, 5, 30), RULES["dense"]
    noise = np.random.default_rng(4).standard_normal((5, 4, 64))
    assert read(round_to(noise, BF16), asked, rule) == []


@pytest.mark.parametrize("arithmetic", [FLOAT32, TENSOR_CORES], ids=lambda a: a.name)
@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_a_scaling_is_measured(factor: float, arithmetic: Arithmetic) -> None:
    asked, rule = request(5, 16, 40), RULES["dense"]
    wrong = attend(asked, replace(rule, scaling=rule.scaling * factor)).output
    (said,) = read(round_to(wrong, BF16), asked, rule, arithmetic=arithmetic)
    measured = float(said.removeprefix("the scaling is ").split()[0])
    assert measured == pytest.approx(factor, abs=0.002)


@pytest.mark.parametrize("page", range(3))
def test_a_page_of_other_keys_is_named(page: int) -> None:
    asked, rule = request(6, 3, 24), RULES["dense"]
    other = request(7, 3, 24)
    keys = slice(8 * page, 8 * page + 8)
    k, v = asked.k.copy(), asked.v.copy()
    k[keys], v[keys] = other.k[keys], other.v[keys]
    wrong = round_to(attend(replace(asked, k=k, v=v), rule).output, BF16)
    want = f"keys {keys.start}..{keys.stop - 1} of request 0, its page {page}, are missing"
    assert [said.startswith(want) for said in read(wrong, asked, rule)] == [True]
