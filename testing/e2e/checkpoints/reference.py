"""The reference model of a tiny checkpoint, in the arithmetic that its config declares.

Weights are decoded, activations quantised and intermediate values rounded to bf16 by the oracles
and by plain torch: no layer, no kernel and no loader of what is tested takes part. kv_b_proj's
activations stay as they are, as decoding absorbs it (layers/attention/mla/README.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from testing.oracles.arrays import Tensors
from testing.oracles.codecs import e2m1, mx
from testing.oracles.formats import ActivationRule, LinearFormat
from testing.oracles.int8_formats import Int8Block, Int8Channel
from testing.oracles.linear_formats.fp8 import Fp8Block, Fp8Tensor
from testing.oracles.linear_formats.mx import Mxfp4
from testing.oracles.linear_formats.nvfp4 import Nvfp4
from testing.oracles.models.build import build
from testing.oracles.models.parts import Stored

_SUFFIXES = ("weight_scale_inv", "weight_scale_2", "weight_scale", "input_scale", "weight")
_UNQUANTISED_INPUT = "kv_b_proj"


def format_of(config: Mapping[str, Any]) -> LinearFormat | None:
    """The format that `quantization_config` names; None without one.

    Raises:
        KeyError: one that no tiny checkpoint has.
    """
    stored = config.get("quantization_config")
    if stored is None:
        return None
    blocks = "weight_block_size" in stored
    formats: dict[tuple[str, bool], LinearFormat] = {
        ("w8a8_int8", False): Int8Channel(),
        ("blockwise_int8", True): Int8Block(),
        ("fp8", False): Fp8Tensor(static=True),
        ("fp8", True): Fp8Block(),
        ("modelopt_fp4", False): Nvfp4(),
        ("mxfp4", False): Mxfp4(),
    }
    return formats[stored["quant_method"], blocks]


def load_reference(folder: Path, *, rounded: bool = True) -> Any:
    """The model of a checkpoint's folder, float32.

    rounded: whether values that a bf16 implementation stores are rounded to bf16.
    """
    config = json.loads((folder / "config.json").read_text())
    tensors = read_tensors(folder)
    model: Any = build(config)
    fmt = format_of(config)
    if fmt is not None:
        tensors, layers = _decoded(tensors, fmt)
        _quantise_activations(model, fmt, layers)
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    if rounded:
        for module in model.modules():
            if isinstance(module, Stored):
                module.register_forward_hook(_round_to_bf16)
    return model.eval()


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of all shards."""
    files = sorted(folder.glob("*.safetensors"))
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def _round_to_bf16(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    return output.bfloat16().to(output.dtype)


def _decoded(
    tensors: Mapping[str, torch.Tensor], fmt: LinearFormat
) -> tuple[dict[str, torch.Tensor], dict[str, Tensors]]:
    """Weights by their names, and each quantised layer's own tensors."""
    made = {n: t for n, t in tensors.items() if t.dtype in (torch.bfloat16, torch.float32)}
    layers: dict[str, Tensors] = {}
    for name, tensor in tensors.items():
        if name.endswith("_blocks"):
            layer = name.removesuffix("_blocks")
            made[layer] = _decoded_experts(tensor, tensors[f"{layer}_scales"])
        elif name.endswith(".weight") and tensor.dtype not in (torch.bfloat16, torch.float32):
            layer = name.removesuffix(".weight")
            layers[layer] = {
                s: _as_numpy(tensors[f"{layer}.{s}"])
                for s in _SUFFIXES
                if f"{layer}.{s}" in tensors
            }
            made[name] = torch.from_numpy(fmt.decode(layers[layer]))
    return {n: t for n, t in made.items() if not n.endswith(_SUFFIXES[:-1])}, layers


def _decoded_experts(blocks: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """(E, N, K/32, 16) and (E, N, K/32) → (E, K, N)."""
    codes = e2m1.unpack(blocks.flatten(2).numpy())
    values = [mx.dequantise(c, s, "e2m1").T for c, s in zip(codes, scales.numpy(), strict=True)]
    return torch.from_numpy(np.stack(values))


def _as_numpy(tensor: torch.Tensor) -> NDArray[Any]:
    is_fp8 = tensor.dtype == torch.float8_e4m3fn
    return np.asarray(tensor.view(torch.uint8) if is_fp8 else tensor)


def _quantise_activations(
    model: torch.nn.Module, fmt: LinearFormat, layers: Mapping[str, Tensors]
) -> None:
    for name, module in model.named_modules():
        if name in layers and not name.endswith(_UNQUANTISED_INPUT):
            rule = fmt.activations(_sharing_input(name, layers))
            if rule.quantises:
                module.register_forward_pre_hook(_quantiser(rule))


def _sharing_input(name: str, layers: Mapping[str, Tensors]) -> dict[str, Tensors]:
    """The layers that a fused one joins, which share x and so a static scale."""
    parent, _, leaf = name.rpartition(".")
    fused = {
        shard: group
        for group in (("gate_proj", "up_proj"), ("q_proj", "k_proj", "v_proj"))
        for shard in group
    }
    if leaf not in fused:
        # All experts share what w2 multiplies by no scale: each has its own.
        return {name: layers[name]}
    if ".experts." in name:
        every = name.split(".experts.")[0] + ".experts."
        return {n: t for n, t in layers.items() if n.startswith(every) and n.endswith(fused[leaf])}
    return {f"{parent}.{shard}": layers[f"{parent}.{shard}"] for shard in fused[leaf]}


def _quantiser(rule: ActivationRule) -> Callable[[torch.nn.Module, Any], tuple[torch.Tensor]]:
    def quantise(module: torch.nn.Module, inputs: Any) -> tuple[torch.Tensor]:
        x = inputs[0]
        rows = x.detach().flatten(0, -2)
        if not len(rows):
            return (x,)
        values = rule.encode(rows.double().numpy()).values
        return (torch.from_numpy(values).to(x.dtype).view_as(x),)

    return quantise
