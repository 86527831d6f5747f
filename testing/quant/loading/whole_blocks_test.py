"""A layer whose K does not consist of a format's whole blocks is refused when it is built."""

from __future__ import annotations

import pytest

import layers.moe.quantization.mxfp4
import layers.moe.quantization.nvfp4
import layers.quantization.mxfp8  # noqa: F401 they register themselves, and their configs
from layers.linear.replicated import ReplicatedLinear
from layers.moe.layer import FusedMoE
from layers.moe.topk import TopKConfig
from layers.quantization.registry import get_quantization_config

# K is a multiple of half a block.
FORMATS = [("modelopt_fp4", 24, 16), ("mxfp4", 48, 32), ("mxfp8", 48, 32)]


@pytest.mark.parametrize(("name", "columns", "block"), FORMATS)
def test_a_linear_layer(name: str, columns: int, block: int) -> None:
    config = get_quantization_config(name).from_config({"quant_method": name})
    wanted = rf"'mlp\.down'.* K is {columns}, wanted a multiple of {block}"
    with pytest.raises(ValueError, match=wanted):
        ReplicatedLinear(columns, 64, quant_config=config, prefix="mlp.down")
    ReplicatedLinear(2 * columns // block * block, 64, quant_config=config, prefix="mlp.down")


@pytest.mark.parametrize(("name", "columns", "block"), FORMATS[:2])
@pytest.mark.parametrize("which", ["hidden", "intermediate"])
def test_an_expert(name: str, columns: int, block: int, which: str) -> None:
    config = get_quantization_config(name).from_config({"quant_method": name})
    hidden, intermediate = (columns, 64) if which == "hidden" else (64, columns)
    wanted = rf"'mlp\.experts'.* K is {columns}, wanted a multiple of {block}"
    with pytest.raises(ValueError, match=wanted):
        FusedMoE(
            2, hidden, intermediate, topk=TopKConfig(1), quant_config=config, prefix="mlp.experts"
        )
