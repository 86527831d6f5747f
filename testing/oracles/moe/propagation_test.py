"""A float32 layer, written here, never alarms; biased experts, flips and swaps in it do."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from testing.oracles.arrays import Float32, Float64
from testing.oracles.formats import LinearFormat
from testing.oracles.int8_formats import Int8Block, Int8Channel
from testing.oracles.linear_formats.fp8 import Fp8Tensor
from testing.oracles.linear_formats.nvfp4 import Nvfp4
from testing.oracles.moe.checkpoints import MoeCheckpoint, moe_checkpoint
from testing.oracles.moe.probes import natural_without_ties, router_logits
from testing.oracles.moe.propagation import Arithmetic, compare_output
from testing.oracles.moe.routing import Choice, Routing, choose
from testing.oracles.rounding import BF16, FP16, FloatType, round_to
from testing.oracles.statistics import Comparison, evidence
from testing.oracles.unquantised_formats import Unquantised

FORMATS = [Int8Channel(), Int8Block(), Fp8Tensor(static=True), Nvfp4(), Unquantised()]
EXPERTS, TOKENS, HIDDEN, INTERMEDIATE = 4, 24, 192, 160


@dataclass
class Float32Layer:
    """Sums of exact products with a few ulps of error of either sign, rounded as declared."""

    checkpoint: MoeCheckpoint
    arithmetic: Arithmetic
    rng: np.random.Generator
    change_gate_up: Callable[[int, Float64], Float64] = field(default=lambda e, x: x)
    change_hidden: Callable[[int, Float64], Float64] = field(default=lambda e, x: x)
    change_down: Callable[[int, Float64], Float64] = field(default=lambda e, x: x)

    def product(self, x: Float64, w: Float64, bias: Float64 | None) -> Float64:
        value = x @ w.T + (0.0 if bias is None else bias)
        # About the rounding that a sum of a few hundred terms of either sign leaves.
        size = np.sqrt(x**2 @ (w**2).T)
        if self.checkpoint.input_rule.quantises:
            # Integer sums are exact: what is left are scales.
            size = np.abs(value) / 3
        off = self.rng.choice([-3, -1, 0, 1, 3], value.shape) * 2.0**-24 * size
        return (value + off).astype(np.float32).astype(float)

    def hidden(self, expert: int, x: Float64) -> Float64:
        both = self.product(x, self.checkpoint.w13[expert], self.checkpoint.bias13(expert))
        both = self.change_gate_up(expert, both)
        if self.arithmetic.gate_up:
            both = round_to(both, self.arithmetic.gate_up)
        gate, up = np.split(both.astype(np.float32), 2, axis=1)
        one, alpha, limit = np.float32(1), np.float32(1.702), np.float32(7)
        if self.checkpoint.activation == "silu":
            value = gate / (one + np.exp(-gate)) * up
        else:
            gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
            value = (up + one) * (gate / (one + np.exp(-(alpha * gate))))
        h = self.change_hidden(expert, value.astype(float))
        if self.arithmetic.rounds_hidden:
            h = round_to(h, self.arithmetic.kind)
        return self.checkpoint.hidden_rules[expert].encode(h).values

    def __call__(self, x: Float64, choice: Choice) -> Float64:
        x = self.checkpoint.input_rule.encode(x).values
        total: Float32 = np.zeros((len(x), self.checkpoint.hidden_size), np.float32)
        for expert in range(len(self.checkpoint.experts)):
            rows, slots = np.nonzero(choice.ids == expert)
            h = self.hidden(expert, x[rows])
            down = self.product(h, self.checkpoint.w2[expert], self.checkpoint.bias2(expert))
            weight = choice.weights[rows, slots][:, None].astype(np.float32)
            if self.arithmetic.weights:
                weight = round_to(weight.astype(float), self.arithmetic.weights).astype(np.float32)
            down = self.change_down(expert, down)
            if self.arithmetic.down:
                down = round_to(down, self.arithmetic.down)
            part = down.astype(np.float32) * weight
            if self.arithmetic.weighted:
                part = round_to(part.astype(float), self.arithmetic.weighted).astype(np.float32)
            total[rows] += part
        return round_to(total.astype(float), self.arithmetic.kind)


def setting(
    seed: int, fmt: LinearFormat, kind: FloatType = BF16, activation: str = "silu"
) -> tuple[np.random.Generator, MoeCheckpoint, Float64, Choice]:
    rng = np.random.default_rng(seed)
    with_bias = activation != "silu"
    checkpoint = moe_checkpoint(rng, fmt, EXPERTS, HIDDEN, INTERMEDIATE, activation, with_bias)
    x = natural_without_ties(rng, checkpoint.input_rule, TOKENS, HIDDEN, kind)
    return rng, checkpoint, x, choose(router_logits(rng, TOKENS, EXPERTS), Routing(2))


def alarms(comparison: Comparison) -> list[str]:
    found = [f"{n}: {f.worst_z:.1f}" for n, f in evidence(comparison).items() if f.rejected.any()]
    outside = comparison.outside()
    return found + ([f"{outside.sum()} elements"] if outside.any() else [])


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("activation", ["silu", "swiglu_oai"])
def test_a_right_layer_never_alarms(fmt: LinearFormat, activation: str) -> None:
    require_no_alarm(fmt, activation, Arithmetic(BF16))


@pytest.mark.parametrize("fmt", [Int8Channel(), Unquantised()], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize(
    "arithmetic",
    [
        Arithmetic(FP16),
        Arithmetic(BF16, gate_up=BF16),
        Arithmetic(BF16, gate_up=BF16, down=BF16),
        Arithmetic(FP16, weighted=FP16),
        Arithmetic(BF16, down=BF16, weights=BF16),
    ],
    ids=["fp16", "gate_up", "gate_up and down", "weighted", "weights"],
)
def test_nor_does_one_that_rounds_more(fmt: LinearFormat, arithmetic: Arithmetic) -> None:
    require_no_alarm(fmt, "silu", arithmetic)


@pytest.mark.parametrize("fmt", [Unquantised(), Nvfp4()], ids=lambda fmt: fmt.name)
def test_nor_does_one_that_quantises_h_before_it_is_rounded(fmt: LinearFormat) -> None:
    require_no_alarm(fmt, "silu", Arithmetic(BF16, gate_up=BF16, rounds_hidden=False, down=BF16))


def require_no_alarm(fmt: LinearFormat, activation: str, arithmetic: Arithmetic) -> None:
    for seed in range(4):
        rng, checkpoint, x, choice = setting(seed, fmt, arithmetic.kind, activation)
        got = Float32Layer(checkpoint, arithmetic, rng)(x, choice)
        comparison = compare_output(checkpoint, x, choice, got, arithmetic)
        assert alarms(comparison) == []
        # Sharp: the noise of one element is no more than an ulp or two of bf16.
        typical = np.sqrt(np.mean(comparison.exact**2, axis=1, keepdims=True))
        assert np.median(comparison.noise.bound / typical) < 2.0**-7


def biased(expert: int, gain: float) -> Callable[[int, Float64], Float64]:
    return lambda e, x: x * gain if e == expert else x


FAULTS: dict[str, dict[str, Callable[[int, Float64], Float64]]] = {
    "gate_up 1% in one expert": {"change_gate_up": biased(2, 1.01)},
    "down 1% in one expert": {"change_down": biased(1, 1.01)},
    "gate and up swapped": {"change_gate_up": lambda e, x: np.roll(x, x.shape[1] // 2, axis=1)},
    "h truncated": {
        "change_hidden": lambda e, x: np.sign(x) * (np.abs(x) - 2.0**-9 * np.abs(x)),
    },
    "h without its last value": {
        "change_hidden": lambda e, x: np.concatenate([x[:, :-1], 0 * x[:, -1:]], axis=1)
    },
}


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_shows(fmt: LinearFormat, fault: str) -> None:
    rng, checkpoint, x, choice = setting(0, fmt)
    got = Float32Layer(checkpoint, Arithmetic(BF16), rng, **FAULTS[fault])(x, choice)
    assert alarms(compare_output(checkpoint, x, choice, got, Arithmetic(BF16)))


def test_a_biased_expert_is_what_stands_out() -> None:
    rng, checkpoint, x, choice = setting(1, Int8Channel())
    layer = Float32Layer(checkpoint, Arithmetic(BF16), rng, change_down=biased(3, 1.005))
    comparison = compare_output(checkpoint, x, choice, layer(x, choice), Arithmetic(BF16))
    family = evidence(comparison)["k_block"]
    assert family.places[int(family.reduction.argmax())].label == "expert 3"
    assert family.gain[3] == pytest.approx(0.005, rel=0.2)


def test_a_shared_expert_counts_once() -> None:
    rng, checkpoint, x, _ = setting(2, Int8Block())
    choice = choose(router_logits(rng, TOKENS, EXPERTS - 1), Routing(1, factor=2.5, shared=1))
    got = Float32Layer(checkpoint, Arithmetic(BF16), rng)(x, choice)
    assert alarms(compare_output(checkpoint, x, choice, got, Arithmetic(BF16))) == []
