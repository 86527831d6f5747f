"""A real layer with a random checkpoint, loaded as a model loads it, and the memory it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from layers.linear.base import LinearBase
from layers.linear.merged_column import MergedColumnParallelLinear
from layers.linear.replicated import ReplicatedLinear
from layers.parameter import ShardedParameter
from layers.quantization.registry import get_quantization_config
from layers.sharding import Shard
from layers.weights import process_weights_after_loading
from testing.perf.methods import TimedMethod

DTYPE = torch.bfloat16


@dataclass(frozen=True)
class Loaded:
    """A layer that is ready.

    checkpoint_bytes: of the tensors that were loaded.
    held_bytes: of GPU memory that the layer holds after post-load; of its parameters on a CPU.
    """

    layer: LinearBase
    checkpoint_bytes: int
    held_bytes: int


def load(method: TimedMethod, backend: str, size: int, device: torch.device) -> Loaded:
    """A layer of N = K = `size`, without bias, bfloat16 in and out.

    Raises:
        BackendUnavailable: the backend cannot run on this device.
    """
    before = _allocated(device)
    layer = _new_layer(method, backend, size, device)
    total = _fill(layer, torch.Generator(device).manual_seed(0))
    process_weights_after_loading(layer)
    own = sum(p.nbytes for p in layer.parameters())
    held = _allocated(device) - before if device.type == "cuda" else own
    return Loaded(layer, total, held)


def _fill(layer: LinearBase, generator: torch.Generator) -> int:
    """Loads every parameter, and returns the bytes of the tensors."""
    total = 0
    for name, parameter in layer.named_parameters():
        assert isinstance(parameter, ShardedParameter)
        for shard in parameter.linear_layout.shards:
            tensor = _random(name, parameter, shard, generator)
            layer.weight_loader_v2(parameter, tensor, shard.id)
            total += tensor.nbytes
    return total


def _new_layer(method: TimedMethod, backend: str, size: int, device: torch.device) -> LinearBase:
    kind = get_quantization_config(str(method.config["quant_method"]))
    config = kind.from_config(method.config, backend=backend)
    options: dict[str, Any] = {
        "params_dtype": DTYPE,
        "quant_config": config,
        "prefix": "proj",
        "device": device,
    }
    if method.shards == 1:
        return ReplicatedLinear(size, size, **options)
    sizes = [size // method.shards] * method.shards
    return MergedColumnParallelLinear(size, sizes, tp_rank=0, tp_size=1, **options)


def _random(
    name: str, parameter: ShardedParameter, shard: Shard, generator: torch.Generator
) -> torch.Tensor:
    """Values that a checkpoint might hold; time does not depend on them, as long as none is NaN."""
    shape, dtype = parameter.checkpoint_shape(shard), parameter.declared_dtype
    made = {"generator": generator, "device": generator.device}
    if dtype is torch.float32:
        return torch.rand(shape, **made) * 0.01 + 0.001
    if dtype is torch.float8_e4m3fn:
        values = torch.randn(shape, **made)
        return (values.abs() + 0.1 if "scale" in name else values * 50).to(dtype)
    low, high = (117, 124) if "scale" in name else (0, 256)
    if dtype is torch.int8:
        low, high = -127, 128
    return torch.randint(low, high, shape, dtype=dtype, **made)


def _allocated(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
