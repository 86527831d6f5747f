"""0-dim scales of a checkpoint: which shapes reach their shard's slot, and what is refused."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

import layers.quantization.fp8
import layers.quantization.modelopt_fp4  # noqa: F401 both register themselves
from layers.weights import WeightLoadError
from testing.harness.device import device
from testing.harness.linear import LinearCase, Named, build
from testing.oracles.arrays import Float64
from testing.oracles.probes import natural
from testing.quant.fp8.methods import STATIC
from testing.quant.nvfp4.methods import W4A4

Edit = Callable[[torch.Tensor], torch.Tensor]
SHARDS = {"q": 256, "k": 128, "v": 128}
# Backend torch: what is loaded is the same for all, and it takes unequal scales.
CASES = [LinearCase(m, "qkv", 6, SHARDS, 256, backend="torch") for m in (STATIC, W4A4)]
SCALES = [(CASES[0], "weight_scale"), (CASES[0], "input_scale")]
SCALES += [(CASES[1], "weight_scale_2"), (CASES[1], "input_scale")]
EACH = pytest.mark.parametrize(
    ("case", "scale"), SCALES, ids=[f"{c.method.format.name}-{s}" for c, s in SCALES]
)
ATTENTION = "model.layers.0.self_attn"


def edited(suffix: str, edit: Edit) -> Callable[[Iterator[Named]], Iterator[Named]]:
    def change(tensors: Iterator[Named]) -> Iterator[Named]:
        for name, tensor in tensors:
            yield name, edit(tensor) if name.endswith(suffix) else tensor

    return change


def outputs(case: LinearCase, suffix: str, edit: Edit) -> Float64:
    checkpoint = case.checkpoint(np.random.default_rng(90))
    x = natural(np.random.default_rng(91), 6, 256)
    return build(case, checkpoint, device(), edited(suffix, edit))(x)


def refused(case: LinearCase, suffix: str, edit: Edit, error: type[Exception]) -> str:
    with pytest.raises(error) as seen:
        outputs(case, suffix, edit)
    return str(seen.value)


@EACH
def test_one_element_is_as_good_as_none(case: LinearCase, scale: str) -> None:
    wanted = outputs(case, scale, lambda t: t)
    assert np.array_equal(outputs(case, scale, lambda t: t.reshape(1)), wanted)


@EACH
def test_a_fused_file_holds_one_for_each_shard(case: LinearCase, scale: str) -> None:
    wanted = outputs(case, scale, lambda t: t)
    assert np.array_equal(outputs(replace(case, fused=True), scale, lambda t: t), wanted)


@EACH
def test_a_fused_file_may_hold_one_for_all(case: LinearCase, scale: str) -> None:
    case = replace(case, one_scale=True)
    wanted = outputs(case, scale, lambda t: t)
    fused = replace(case, fused=True)
    for edit in (lambda t: t, lambda t: t.reshape(1), lambda t: t.expand(3)):
        assert np.array_equal(outputs(fused, scale, edit), wanted)


@EACH
def test_another_shape_is_refused(case: LinearCase, scale: str) -> None:
    message = refused(case, f"k_proj.{scale}", lambda t: t.expand(2), WeightLoadError)
    assert f"qkv_proj.{scale}' shard 'k' has shape (2,), wanted ()" in message
    fused = replace(case, fused=True)
    message = refused(fused, f".{scale}", lambda t: t[:2], WeightLoadError)
    assert f"{ATTENTION}.qkv_proj.{scale}' has shape (2,)" in message
    assert "(3,)" in message


@EACH
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_scale_that_is_not_finite_is_refused(case: LinearCase, scale: str, value: float) -> None:
    message = refused(case, f"v_proj.{scale}", lambda t: torch.full_like(t, value), WeightLoadError)
    assert f"qkv_proj.{scale}' shard 'v' holds NaN or Inf" in message


@EACH
@pytest.mark.parametrize("dtype", [torch.float64, torch.int32])
def test_another_dtype_is_refused(case: LinearCase, scale: str, dtype: torch.dtype) -> None:
    message = refused(case, f"q_proj.{scale}", lambda t: t.to(dtype), WeightLoadError)
    assert f"qkv_proj.{scale}' shard 'q' has dtype {dtype}, wanted" in message


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.method.format.name)
def test_no_shard_has_an_input_scale_above_zero(case: LinearCase) -> None:
    message = refused(case, ".input_scale", torch.zeros_like, ValueError)
    assert f"{ATTENTION}.qkv_proj.input_scale' is 0" in message
    assert "Calibrate the model again" in message


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.method.format.name)
def test_one_shard_has_no_input_scale_above_zero(case: LinearCase) -> None:
    message = refused(case, "k_proj.input_scale", torch.zeros_like, ValueError)
    assert f"{ATTENTION}.qkv_proj.input_scale' is 0" in message


@EACH
def test_a_scale_below_zero_is_refused(case: LinearCase, scale: str) -> None:
    message = refused(case, f"k_proj.{scale}", torch.negative, WeightLoadError)
    assert f"qkv_proj.{scale}' shard 'k' holds -" in message
    assert "wanted scales of at least 0. Quantise the model again." in message


def test_nvfp4_divides_by_no_scale_whose_reciprocal_is_infinite() -> None:
    message = refused(
        CASES[1], "k_proj.input_scale", lambda t: torch.full_like(t, 1e-40), ValueError
    )
    assert "qkv_proj.input_scale' is 9.99995e-41 (1 of 3 scales" in message


@EACH
def test_a_missing_scale_is_named_with_its_shard(case: LinearCase, scale: str) -> None:
    checkpoint = case.checkpoint(np.random.default_rng(92))

    def change(tensors: Iterator[Named]) -> Iterator[Named]:
        return ((n, t) for n, t in tensors if n != f"{ATTENTION}.k_proj.{scale}")

    with pytest.raises(WeightLoadError, match="1 tensors were never loaded") as error:
        build(case, checkpoint, device(), change)
    assert f"qkv_proj.{scale}' shard 'k'" in str(error.value)
