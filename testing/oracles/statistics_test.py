"""False alarms of the statistics over many right kernels, and the smallest bias they find.

The kernels here are fp32 models in numpy, written apart from any layer: integer sums, then scales
in fp32 in one order or another, then one rounding to bf16.
"""

from dataclasses import replace
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.checkpoints import linear_checkpoint
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product
from testing.oracles.formats import LinearFormat
from testing.oracles.int8_formats import Int8Block, Int8Channel
from testing.oracles.places import Layout, consecutive_shards
from testing.oracles.rounding import BF16, round_to, ulp
from testing.oracles.statistics import Comparison, bennett_score, evidence

FORMATS = [Int8Channel(), Int8Block()]
NULL_RUNS = 400


def by_name(fmt: LinearFormat) -> str:
    return fmt.name


def fp32_kernel(parts: Float64, rng: np.random.Generator) -> Float64:
    """Add K blocks in fp32 in a random order, each with three rounding errors, and store bf16."""
    total = np.zeros(parts.shape[1:], np.float32)
    for part in rng.permutation(parts):
        errors = rng.uniform(-1, 1, (3, *part.shape)).sum(axis=0) * 2.0**-24
        total += (part * (1 + errors)).astype(np.float32)
    return total.astype(ml_dtypes.bfloat16).astype(np.float64)


def comparison(fmt: LinearFormat, rng: np.random.Generator, m: int, n: int, k: int) -> Comparison:
    checkpoint = linear_checkpoint(rng, fmt, {"gate": n // 2, "up": n // 2}, k)
    product = Product(checkpoint.activations.lossless(rng, m, k), checkpoint.weight)
    parts = product.parts
    got = fp32_kernel(product.exact[None] if fmt.name == "int8_channel" else parts, rng)
    return Comparison(got, parts, product.exact, fmt.noise(product), BF16, checkpoint.layout)


@cache
def field_case(fmt: LinearFormat, seed: int) -> Comparison:
    """The shape of the format notes, M 64 N 512 K 1024; kept, since every family looks at it."""
    return comparison(fmt, np.random.default_rng(1000 + seed), 64, 512, 1024)


def alarms(case: Comparison) -> list[str]:
    found = [name for name, family in evidence(case).items() if family.rejected.any()]
    return found + ["element"] * bool(case.outside().any())


def biased(case: Comparison, change: Float64) -> Comparison:
    """The same case from a kernel whose product is off by `change` (M, N)."""
    got = (case.exact + change).astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    return Comparison(got, case.parts, case.exact, case.noise, case.kind, case.layout)


@pytest.mark.parametrize("fmt", FORMATS, ids=by_name)
def test_no_false_alarm_over_many_right_kernels(fmt: LinearFormat) -> None:
    shapes = [(5, 160, 336), (16, 256, 512), (64, 64, 48), (3, 384, 1040)]
    for seed in range(NULL_RUNS):
        m, n, k = shapes[seed % len(shapes)]
        case = comparison(fmt, np.random.default_rng(seed), m, n, k)
        assert alarms(case) == [], f"seed {seed}, M {m} N {n} K {k}"


# A relative bias, in percent, that 19 of 20 seeds must show at M 64, N 512, K 1024 by the statistic
# of its own family. Statistics that take round(r) - r for noise need .012 (gain), .09 (row), .3
# (column) and .04 (tile).
SMALLEST_BIAS = {
    "gain": 0.001,
    "shard": 0.0015,
    "k_block": 0.005,
    "tile": 0.02,
    "row": 0.03,
    "column": 0.2,
}


@pytest.mark.parametrize("fmt", FORMATS, ids=by_name)
@pytest.mark.parametrize(("family", "percent"), SMALLEST_BIAS.items(), ids=SMALLEST_BIAS.keys())
def test_smallest_bias_found(fmt: LinearFormat, family: str, percent: float) -> None:
    found = 0
    for seed in range(20):
        case = field_case(fmt, seed)
        place = {
            "gain": (case.exact, np.s_[:, :]),
            "shard": (case.exact, np.s_[:, 256:]),
            "k_block": (case.parts[3], np.s_[:, :]),
            "tile": (case.parts[3], np.s_[:, 128:256]),
            "row": (case.exact, np.s_[17:18]),
            "column": (case.exact, np.s_[:, 300:301]),
        }[family]
        change = np.zeros_like(case.exact)
        change[place[1]] = percent / 100 * place[0][place[1]]
        faulty = biased(case, change)
        assert "element" in alarms(faulty)
        found += bool(evidence(faulty)[family].rejected.any())
    assert found >= 19


@pytest.mark.parametrize("fmt", FORMATS, ids=by_name)
def test_elements_show_a_global_bias_of_three_millionths(fmt: LinearFormat) -> None:
    found = 0
    for seed in range(20):
        case = field_case(fmt, seed)
        found += "element" in alarms(biased(case, 3e-6 * case.exact))
    assert found >= 19


def test_bennett_by_hand() -> None:
    # V = 1, b = 1, t = 1: h(1) = 2·log 2 - 1 = .386294; two-sided - log 2.
    score = bennett_score(np.array(1.0), np.array(1.0), np.array(1.0))
    assert float(score) == pytest.approx(0.386294 - 0.693147, abs=1e-5)


def test_bennett_tends_to_the_normal_bound_for_many_small_terms() -> None:
    score = bennett_score(np.array(6.0), np.array(1.0), np.array(1e-9))
    assert float(score) == pytest.approx(18 - np.log(2), rel=1e-6)


def test_bennett_bounds_a_poisson_tail() -> None:
    # P(Poisson(.01) ≥ 3) = 1.65e-7; the bound must lie above it and not far.
    score = float(bennett_score(np.array(3.0), np.array(0.01), np.array(1.0)))
    assert 1.65e-7 < 2 * np.exp(-score - np.log(2)) < 1e-5


def test_no_variance_and_no_deviation_is_no_evidence() -> None:
    assert float(bennett_score(np.array(0.0), np.array(0.0), np.array(0.0))) <= 0
    assert float(bennett_score(np.array(1.0), np.array(0.0), np.array(0.0))) > 100


def flipping_kernel(seed: int) -> Comparison:
    """Errors of a quarter of an ulp of bf16, as tensor cores leave: one element in five flips."""
    rng = np.random.default_rng([seed, 3])
    exact = rng.standard_normal((16, 256)) * 8
    spread = ulp(exact, BF16) / 4
    noise = Noise(4 * spread, spread, np.zeros_like(exact))
    got = round_to(exact + spread * np.clip(rng.standard_normal(exact.shape), -4, 4), BF16)
    layout = Layout(consecutive_shards({"gate": 128, "up": 128}), 128)
    return Comparison(got, exact[None], exact, noise, BF16, layout)


def test_gains_of_right_kernels_scatter_as_their_deviation_says() -> None:
    families = [evidence(flipping_kernel(seed)) for seed in range(60)]
    for name in ("gain", "shard", "row", "column"):
        ratios = np.concatenate([f[name].gain / f[name].deviation for f in families])
        assert 0.5 < np.sqrt(np.mean(ratios**2)) < 1.1, name


def test_what_all_elements_may_share_is_no_evidence_and_more_is() -> None:
    case = flipping_kernel(1)
    shared = 0.01
    noise = case.noise + Noise(*[shared * np.abs(case.exact)] * 3)
    for gain, found in ((shared / 2, False), (2 * shared, True)):
        got = round_to(case.exact * (1 + gain), BF16)
        allowed = replace(case, got=got, noise=replace(noise, std=case.noise.std))
        assert bool(evidence(allowed)["gain"].rejected.any()) == found
        assert evidence(replace(case, got=got))["gain"].rejected.any()
