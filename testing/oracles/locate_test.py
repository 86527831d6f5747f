"""A fault is named by the smallest place that explains it."""

import numpy as np
import pytest

from testing.oracles.arrays import Float64, Mask
from testing.oracles.checkpoints import LinearCheckpoint, linear_checkpoint
from testing.oracles.error_model.product import Product
from testing.oracles.formats import LinearFormat
from testing.oracles.int8_formats import Int8Block, Int8Channel
from testing.oracles.locate import Bias, biases, describe_cells, misplaced_shards
from testing.oracles.places import Layout, consecutive_shards
from testing.oracles.rounding import BF16, round_to
from testing.oracles.statistics import Comparison

FORMATS = [Int8Channel(), Int8Block()]


def by_name(fmt: LinearFormat) -> str:
    return fmt.name


class Case:
    """A merged layer of two shards of 256 rows, K 1040, and what a faulty weight makes of it."""

    def __init__(self, fmt: LinearFormat) -> None:
        rng = np.random.default_rng(12)
        self.checkpoint: LinearCheckpoint = linear_checkpoint(
            rng, fmt, {"gate": 256, "up": 256}, 1040
        )
        self.x = self.checkpoint.activations.lossless(rng, 32, 1040)
        self.weight = self.checkpoint.weight

    def compare(self, got: Float64) -> Comparison:
        product = Product(self.x, self.weight)
        noise = self.checkpoint.format.noise(product)
        layout = self.checkpoint.layout
        return Comparison(round_to(got, BF16), product.parts, product.exact, noise, BF16, layout)

    def with_weight(self, weight: Float64) -> Comparison:
        return self.compare(self.x @ weight.T)


def named(found: list[Bias]) -> list[str]:
    return [str(bias.place) for bias in found]


@pytest.mark.parametrize("fmt", FORMATS, ids=by_name)
class TestPlaces:
    def test_right(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        assert biases(case.with_weight(case.weight)) == []

    def test_whole_output(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        (bias,) = biases(case.with_weight(1.01 * case.weight))
        assert str(bias.place) == "the whole output"
        assert bias.gain == pytest.approx(1.01, abs=6 * bias.deviation)
        assert bias.deviation < 1e-4

    def test_shard(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        weight = case.weight.copy()
        weight[256:] *= 0.99
        (bias,) = biases(case.with_weight(weight))
        assert str(bias.place) == "shard 'up'"
        assert bias.gain == pytest.approx(0.99, abs=6 * bias.deviation)

    def test_tile(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        weight = case.weight.copy()
        weight[384:512, 384:512] *= 1.01
        (bias,) = biases(case.with_weight(weight))
        assert str(bias.place) == "tile (1, 3) of shard 'up'"
        assert bias.gain == pytest.approx(1.01, abs=6 * bias.deviation)

    def test_column(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        weight = case.weight.copy()
        weight[300] *= 1.01
        assert named(biases(case.with_weight(weight))) == ["column 44 of shard 'up'"]

    def test_row(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        got = case.x @ case.weight.T
        got[17] *= 1.01
        assert named(biases(case.compare(got))) == ["row 17"]

    def test_last_k_block(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        weight = case.weight.copy()
        weight[:, 1024:] = 0
        (bias,) = biases(case.with_weight(weight))
        assert str(bias.place) == "K block 8 (k 1024..1039)"
        assert bias.gain == pytest.approx(0, abs=1e-3)

    def test_k_block_of_one_shard(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        weight = case.weight.copy()
        weight[256:, 256:384] *= 0.5
        assert named(biases(case.with_weight(weight))) == ["K block 2 (k 256..383) of shard 'up'"]

    def test_tiny_bias(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        (bias,) = biases(case.with_weight((1 + 4e-5) * case.weight))
        assert str(bias.place) == "the whole output"
        assert bias.gain == pytest.approx(1 + 4e-5, abs=1e-5)

    def test_scatter_without_bias_names_no_place(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        scatter = 1 + np.random.default_rng(14).uniform(-1e-3, 1e-3, (32, 512))
        comparison = case.compare(scatter * (case.x @ case.weight.T))
        assert comparison.outside().sum() > 1000
        assert biases(comparison) == []

    def test_two_places_are_both_named(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        weight = case.weight.copy()
        weight[:128, :128] *= 1.02
        weight[400] *= 0.9
        assert set(named(biases(case.with_weight(weight)))) == {
            "tile (0, 0) of shard 'gate'",
            "column 144 of shard 'up'",
        }

    def test_swapped_shards(self, fmt: LinearFormat) -> None:
        case = Case(fmt)
        swapped = np.concatenate([case.weight[256:], case.weight[:256]])
        pairs = [(a.name, b.name) for a, b in misplaced_shards(case.with_weight(swapped))]
        assert pairs == [("gate", "up"), ("up", "gate")]


def test_cells_are_boxed_by_shard() -> None:
    layout = Layout(consecutive_shards({"q": 4, "k": 2}), 8)
    wrong: Mask = np.zeros((6, 8), dtype=bool)
    wrong[1, 2] = wrong[3, 5] = wrong[5, 0] = True
    assert describe_cells(wrong, layout) == [
        "shard 'q': 2 of 32 weight cells differ, within rows 1..3, k 2..5",
        "shard 'k': 1 of 16 weight cells differ, within rows 1..1, k 0..0",
    ]
