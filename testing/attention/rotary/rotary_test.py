"""Rotary embedding against its definition: styles, scalings, partial heads, far positions."""

import math

import numpy as np
import pytest
import torch

from layers.rotary.embedding import RotaryEmbedding
from layers.rotary.scaling import Llama3Scaling, YarnScaling
from testing.harness.device import device
from testing.harness.tensors import DTYPES, KINDS, floats_to_torch, to_numpy
from testing.oracles.arrays import Float64
from testing.oracles.attention.paging import Int64
from testing.oracles.attention.rope.rope import Llama3, Rope, Yarn, rotate, rotation_bound
from testing.oracles.rounding import round_to

LAST = 163839
POSITIONS: Int64 = np.array([0, 1, 2, 15, 16, 17, 4095, 4096, 8191, 131072, LAST])
SCALINGS = {
    "plain": (None, None),
    "yarn of DeepSeek-V3": (
        Yarn(40.0, 4096, mscale=1.0, mscale_all_dim=1.0),
        YarnScaling(40.0, 4096, mscale=1.0, mscale_all_dim=1.0),
    ),
    "yarn of DeepSeek-V2-Lite": (
        Yarn(40.0, 4096, mscale=0.707, mscale_all_dim=0.0),
        YarnScaling(40.0, 4096, mscale=0.707, mscale_all_dim=0.0),
    ),
    "yarn of its paper": (Yarn(4.0, 32768), YarnScaling(4.0, 32768)),
    "yarn of gpt-oss": (Yarn(32.0, 4096, truncate=False), YarnScaling(32.0, 4096, truncate=False)),
    # Where the ramp would begin before the first pair, and end behind the last.
    "yarn of short texts": (Yarn(4.0, 64), YarnScaling(4.0, 64)),
    "yarn of long texts": (Yarn(4.0, 262144), YarnScaling(4.0, 262144)),
    "llama3": (Llama3(8.0, 8192), Llama3Scaling(8.0, 8192)),
}


def check(layer: RotaryEmbedding, rope: Rope, x: Float64, dtype: str) -> None:
    """Every value lies between what the definition gives, off by float32's errors, rounded."""
    positions = torch.from_numpy(POSITIONS).to(device())
    tensor = floats_to_torch(x, DTYPES[dtype], device())
    kept = tensor.clone()
    (out,) = layer(positions, tensor)
    assert torch.equal(tensor, kept) and out.dtype is tensor.dtype and out.shape == tensor.shape
    got, turned = to_numpy(out), x[..., : rope.dim]
    want, bound = rotate(turned, POSITIONS, rope), rotation_bound(turned, rope)
    low, high = (round_to(want + sign * bound, KINDS[dtype]) for sign in (-1, 1))
    wrong = (got[..., : rope.dim] < low) | (got[..., : rope.dim] > high)
    assert not wrong.any(), (
        f"{wrong.sum()} of {wrong.size} values are wrong, the first at {np.argwhere(wrong)[0]}"
    )
    np.testing.assert_array_equal(got[..., rope.dim :], x[..., rope.dim :])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("name", SCALINGS)
def test_values_are_turned_by_their_angles(name: str, style: str, dtype: str) -> None:
    ours, theirs = SCALINGS[name]
    base = 500000.0 if name == "llama3" else 10000.0
    rope = Rope(64, base, style, ours)
    layer = RotaryEmbedding(64, base, LAST + 1, style, theirs, device=device())
    rng = np.random.default_rng(len(name))
    for shape in ((len(POSITIONS), 3, 64), (len(POSITIONS), 64)):
        check(layer, rope, round_to(rng.standard_normal(shape), KINDS[dtype]), dtype)


@pytest.mark.parametrize("style", ["neox", "gptj"])
def test_values_past_the_rotary_dimension_stay(style: str) -> None:
    rng = np.random.default_rng(1)
    layer = RotaryEmbedding(16, 10000.0, LAST + 1, style, device=device())
    x = round_to(rng.standard_normal((len(POSITIONS), 2, 48)), KINDS["bfloat16"])
    check(layer, Rope(16, style=style), x, "bfloat16")


def test_the_softmax_factor_of_yarn() -> None:
    # DeepSeek multiplies the scale by (0.1·ln 40 + 1)² = 1.3688879454².
    yarn = YarnScaling(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
    assert math.isclose(yarn.softmax_factor, 1.3688879454113936**2, rel_tol=1e-12)
    assert yarn.magnitude == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((63, 10000.0, 10), "rotary_dim is 63, wanted an even number"),
        ((64, 10000.0, 0), "max_position is 0"),
        ((64, 0.5, 10), "base is 0.5"),
        ((64, 10000.0, 10, "llama"), "style is 'llama', wanted 'neox' or 'gptj'"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RotaryEmbedding(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((3, 16), r"x is \(3, 16\), wanted \(2, ..., 16 or more\)"),
        ((2, 4, 15), r"x is \(2, 4, 15\), wanted \(2, ..., 16 or more\)"),
        ((2,), r"x is \(2,\), wanted \(2, ..., 16 or more\)"),
    ],
)
def test_tensors_of_other_shapes_are_refused(shape: tuple[int, ...], message: str) -> None:
    layer = RotaryEmbedding(16, 10000.0, 8, device=device())
    positions = torch.arange(2, device=device())
    with pytest.raises(ValueError, match=message):
        layer(positions, torch.zeros(2, 16, device=device()), torch.zeros(shape, device=device()))


@pytest.mark.parametrize("positions", [torch.zeros(2), torch.zeros(1, 2, dtype=torch.int64)])
def test_positions_of_another_kind_are_refused(positions: torch.Tensor) -> None:
    layer = RotaryEmbedding(16, 10000.0, 8, device=device())
    with pytest.raises(ValueError, match=r"positions are .*, wanted \(T,\) int64: one a token"):
        layer(positions.to(device()), torch.zeros(2, 16, device=device()))
