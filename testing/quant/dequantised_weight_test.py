"""A ready layer gives its weight back by its values, as the checkpoint's decoder has them."""

import numpy as np
import pytest
import torch

from layers.quantization.base import LinearMethodBase
from testing.harness.device import device
from testing.harness.linear import LinearCase, Method, build, new_layer
from testing.quant.every_method import UNQUANTISED, everything_here, names_of

PAIRS = everything_here()
EACH = pytest.mark.parametrize(("method", "backend"), PAIRS, ids=names_of(PAIRS))
# What torch.nn.functional.scaled_mm needs of 128 by 128 blocks on sm90.
K = 512


@EACH
def test_every_value_is_that_of_the_checkpoint_rounded_once(
    method: Method, backend: str | None
) -> None:
    case = LinearCase(method, "merged", 4, {"gate": 256, "up": 128}, K, backend=backend)
    checkpoint = case.checkpoint(np.random.default_rng(83))
    layer = build(case, checkpoint, device()).layer
    wanted = (
        torch.from_numpy(checkpoint.weight)
        .to(torch.bfloat16 if method is UNQUANTISED else torch.float32)
        .float()
    )
    seen = layer.dequantised_weight()
    assert seen.dtype is torch.float32
    assert torch.equal(seen.cpu(), wanted)
    # A caller may write into what it got.
    before = layer(torch.ones(4, K, dtype=torch.bfloat16, device=device()))
    seen.zero_()
    assert torch.equal(layer(torch.ones(4, K, dtype=torch.bfloat16, device=device())), before)


def test_a_layer_without_its_weights_has_none() -> None:
    layer = new_layer(LinearCase(UNQUANTISED, "column", 4, {"": 128}, K), device())
    with pytest.raises(RuntimeError, match=r"'model\.layers\.0\.mlp\.up_proj' has no weight yet"):
        layer.dequantised_weight()


def test_a_method_that_cannot_says_so_by_name() -> None:
    class Opaque(LinearMethodBase):
        create_weights = process_weights_after_loading = apply = None  # type: ignore[assignment]

    layer = new_layer(LinearCase(UNQUANTISED, "column", 4, {"": 128}, K), device())
    wanted = "'model.layers.0.mlp.up_proj': Opaque does not give back .* ignored_layers"
    with pytest.raises(ValueError, match=wanted):
        Opaque().dequantised_weight(layer)
