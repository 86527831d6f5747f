"""Simulated kernels stay within the error model, and the model is not wildly wide."""

from dataclasses import replace

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.attention.arithmetic import FLOAT32, TENSOR_CORES, Arithmetic
from testing.oracles.attention.dense import Attended, Request, Rule, attend
from testing.oracles.attention.error_model import RowNoise, attention_noise
from testing.oracles.attention.scores import RowComparison, row_evidence
from testing.oracles.attention.simulated import Schedule, simulate
from testing.oracles.rounding import BF16, FP16, FloatType, round_to

SCHEDULES = {
    "one block": Schedule(block=4096, base_two=False),
    "blocks": Schedule(block=16),
    "backwards": Schedule(block=32, backwards=True),
    "key by key": Schedule(block=1),
    "splits": Schedule(block=16, splits=5),
    "rounded sum": Schedule(block=64, sum_rounded=True),
}
RULES = {
    "dense": Rule(4, 2, 0.125),
    "window": Rule(4, 2, 0.125, window=9),
    "cap": Rule(4, 2, 0.125, soft_cap=5.0),
    "sinks": Rule(4, 2, 0.125, sinks=np.array([-1.0, 0.0, 2.0, 9.0])),
}


def attended(
    seed: int, rule: Rule, kind: FloatType, queries: int, keys: int, sharpness: float = 2.0
) -> Attended:
    rng = np.random.default_rng(seed)
    shapes = ((queries, 4, 64), (keys, 2, 64), (keys, 2, 64))
    q, k, v = (round_to(rng.standard_normal(s), kind) for s in shapes)
    return attend(Request(round_to(sharpness * q, kind), k, v), rule)


def comparison(found: Attended, got: Float64, noise: RowNoise, kind: FloatType) -> RowComparison:
    rows = noise.shared.shape
    places = {
        "gain": (["whole"], np.zeros(rows, np.int64)),
        "head": ([f"head {h}" for h in range(rows[1])], np.tile(np.arange(rows[1]), (rows[0], 1))),
        "token": ([str(i) for i in range(rows[0])], np.tile(np.arange(rows[0])[:, None], rows[1])),
    }
    return RowComparison(got, found.output, noise, kind, places)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("kind", [BF16, FP16], ids=lambda kind: kind.name)
@pytest.mark.parametrize("rounded", [False, True])
def test_simulated_kernels_raise_no_alarm(
    rule: Rule, schedule: Schedule, kind: FloatType, rounded: bool
) -> None:
    arithmetic = replace(FLOAT32, rounds_probabilities=rounded)
    for seed, (queries, keys) in enumerate([(7, 7), (3, 300), (1, 40)]):
        found = attended(seed, rule, kind, queries, keys)
        got = simulate(found, schedule, kind, arithmetic.probabilities(kind))
        beside = comparison(found, got, attention_noise(found, arithmetic, kind), kind)
        assert not beside.outside.any()
        for family, evidence in row_evidence(beside).items():
            assert not evidence.rejected.any(), family


@pytest.mark.parametrize("kind", [BF16, FP16], ids=lambda kind: kind.name)
@pytest.mark.parametrize("arithmetic", [FLOAT32, TENSOR_CORES], ids=lambda a: a.name)
def test_deviations_are_those_of_simulated_kernels(kind: FloatType, arithmetic: Arithmetic) -> None:
    """Before the last rounding, of long contexts, where there is much to round."""
    rule, wide = RULES["dense"], FloatType("wide", 40, -126, 1e38)
    for keys in (64, 2048):
        found = attended(3, rule, kind, 16, keys)
        got = simulate(found, Schedule(block=64), wide, arithmetic.probabilities(kind))
        noise = attention_noise(found, arithmetic, kind)
        error = got - found.output
        assert (np.abs(error) <= noise.bound).all()
        ratio = np.sqrt(np.mean((error / noise.std) ** 2))
        # Nothing but rounding probabilities is large; float32's own parts are bounds.
        assert 0.4 < ratio < 1 if arithmetic.rounds_probabilities else ratio < 1
        toward = (found.output * error).sum(axis=2)
        by_row = np.sqrt(np.mean(toward**2 / noise.projected))
        assert 0.2 < by_row < 1 if arithmetic.rounds_probabilities else by_row < 1


def biased(gain: float) -> tuple[Attended, Float64]:
    found = attended(5, RULES["dense"], BF16, 32, 96)
    return found, round_to(found.output * gain, BF16)


@pytest.mark.parametrize(("arithmetic", "smallest"), [(FLOAT32, 1e-4), (TENSOR_CORES, 1e-3)])
def test_small_gains_are_found_and_measured(arithmetic: Arithmetic, smallest: float) -> None:
    for gain in (1 + smallest, 1 - smallest):
        found, got = biased(gain)
        noise = attention_noise(found, arithmetic, BF16)
        evidence = row_evidence(comparison(found, got, noise, BF16))["gain"]
        assert evidence.rejected.all()
        assert evidence.gain[0] == pytest.approx(gain - 1, rel=0.5)


def test_a_scale_of_the_logits_that_is_off_by_one_percent_is_found() -> None:
    found = attended(6, RULES["dense"], BF16, 32, 96)
    sharper = replace(RULES["dense"], scaling=0.125 * 1.01)
    request = Request(
        found.q.transpose(1, 0, 2), *(a[::2].transpose(1, 0, 2) for a in (found.k, found.v))
    )
    got = round_to(attend(request, sharper).output, BF16)
    for arithmetic in (FLOAT32, TENSOR_CORES):
        noise = attention_noise(found, arithmetic, BF16)
        assert row_evidence(comparison(found, got, noise, BF16))["gain"].rejected.all()


def test_a_gain_of_one_head_is_named() -> None:
    found, got = biased(1.0)
    got = got.copy()
    got[:, 2] = round_to(found.output[:, 2] * 1.004, BF16)
    noise = attention_noise(found, TENSOR_CORES, BF16)
    evidence = row_evidence(comparison(found, got, noise, BF16))
    assert evidence["head"].rejected.tolist() == [False, False, True, False]
    assert not evidence["token"].rejected.any()


def test_values_of_fp16_probabilities_below_its_range_may_vanish() -> None:
    rule = Rule(4, 2, 0.125, sinks=np.full(4, 20.0))
    found = attended(7, rule, FP16, 4, 50)
    assert (found.weights < 2.0**-14).all()
    arithmetic = replace(FLOAT32, rounds_probabilities=True)
    noise = attention_noise(found, arithmetic, FP16)
    weights = round_to(found.weights, FP16)
    exact = (weights @ found.v / found.total[..., None]).transpose(1, 0, 2)
    assert (np.abs(exact - found.output) <= noise.bound).all()
    assert (np.abs(exact - found.output) > 2.0**-11 * np.abs(found.output)).any()
