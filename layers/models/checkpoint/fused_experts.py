"""gpt-oss's tensors of experts: all experts in one, gate and up in turn.

| tensor | of bfloat16 | of MXFP4 |
| --- | --- | --- |
| `gate_up_proj` | (E, H, 2I) | `…_blocks` (E, 2I, H / 32, 16), `…_scales` (E, 2I, H / 32) |
| `down_proj` | (E, I, H) | `…_blocks` (E, H, I / 32, 16), `…_scales` (E, H, I / 32) |
| `gate_up_proj_bias`, `down_proj_bias` | (E, 2I), (E, H) | the same |

A `FusedMoE` of MXFP4 takes these as they are; of bfloat16 it wants rows of outputs, (E, 2I, H),
gate rows first and up rows behind them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from layers.models.checkpoint.expected import Wanted
from layers.moe.layer import FusedMoE
from layers.moe.parameter import ExpertParameter

_MATMULS = {"w13": "gate_up_proj", "w2": "down_proj"}
_SUFFIXES = {"weight": "_blocks", "weight_scale": "_scales", "bias": "_bias"}


def wanted_of_experts(path: str, layer: FusedMoE) -> Iterator[tuple[str, Wanted]]:
    """A layer's tensors by name."""
    for name, parameter in layer.named_parameters(recurse=False):
        assert isinstance(parameter, ExpertParameter)
        matmul, _, suffix = name.partition("_")
        one = parameter.one
        pieces = [one.checkpoint_shape(shard) for shard in one.linear_layout.shards]
        whole = (layer.num_experts, sum(piece[0] for piece in pieces), *pieces[0][1:])
        shapes = [whole]
        ending = _SUFFIXES[suffix]
        size = parameter.block_bytes
        if suffix == "weight" and size is None:
            shapes, ending = [(whole[0], whole[2], whole[1])], ""
        elif suffix == "weight" and size is not None:
            shapes.insert(0, (*whole[:2], whole[2] // size, size))
        yield f"{path}.{_MATMULS[matmul]}{ending}", Wanted(tuple(shapes), one.accepted_dtypes)


def as_rows_of_outputs(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of bfloat16 experts as a `FusedMoE` takes it; another tensor as it is."""
    leaf = name.rpartition(".experts.")[2]
    if leaf in _MATMULS.values():
        tensor = tensor.transpose(1, 2)
    if leaf in ("gate_up_proj", "gate_up_proj_bias"):
        tensor = torch.cat((tensor[:, 0::2], tensor[:, 1::2]), dim=1)
    return tensor
