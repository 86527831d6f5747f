"""Build a real linear layer from a checkpoint, as a model does, and hand it numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from layers.linear.base import LinearBase
from layers.linear.column import ColumnParallelLinear
from layers.linear.merged_column import MergedColumnParallelLinear
from layers.linear.qkv import QKVParallelLinear
from layers.linear.replicated import ReplicatedLinear
from layers.linear.row import RowParallelLinear
from layers.quantization.base import QuantizationConfig
from layers.quantization.registry import get_quantization_config
from layers.weights import load_weights, process_weights_after_loading
from testing.harness import backend_table
from testing.harness.memory import padded_view, poisoned_memory
from testing.harness.tensors import DTYPES, floats_to_torch, to_numpy, to_torch
from testing.harness.verdict import Finding
from testing.oracles.arrays import Float64
from testing.oracles.checkpoints import LinearCheckpoint, linear_checkpoint
from testing.oracles.error_model.accumulators import FP32, Accumulator
from testing.oracles.formats import LinearFormat

Named = tuple[str, torch.Tensor]

# Where a model keeps a layer of each kind, and the checkpoint's name for each of its shards.
_PLACES: dict[str, tuple[str, str]] = {
    "replicated": ("model.layers.0.mlp", "shared_proj"),
    "column": ("model.layers.0.mlp", "up_proj"),
    "merged": ("model.layers.0.mlp", "gate_up_proj"),
    "qkv": ("model.layers.0.self_attn", "qkv_proj"),
    "row": ("model.layers.0.mlp", "down_proj"),
}
PACKED = {"gate_up_proj": ["gate_proj", "up_proj"], "qkv_proj": ["q_proj", "k_proj", "v_proj"]}


@dataclass(frozen=True)
class Method:
    """A quantisation method as a checkpoint's config.json names it.

    format: what the checkpoint means; x is quantised as it says.
    config: of config.json; None: unquantised.
    accumulators: how a backend of the matmul adds products up, if not in fp32.
    """

    format: LinearFormat
    config: Mapping[str, object] | None
    accumulators: Mapping[str, Accumulator] = field(default_factory=dict)

    def accumulator(self, backends: Mapping[str, str]) -> Accumulator:
        """How the kernel that multiplies adds products up; a method names it last.

        backends: of a layer, by operation.
        """
        return self.accumulators.get("".join(list(backends.values())[-1:]), FP32)


@dataclass(frozen=True)
class LinearCase:
    """One layer to build.

    kind: replicated, column, merged, qkv or row.
    shards: rows of each shard: {'gate': 256, 'up': 256}, {'q': …, 'k': …, 'v': …}, or {'': N}.
    m, k: rows of x and the reduced dimension.
    fused: the checkpoint holds shards as one tensor, and their 0-dim scales as (shards,).
    one_scale: shards share their 0-dim scales; a fused checkpoint then holds one scalar for all.
    backend: kernel backend asked for; None leaves the choice to the layer.
    head_size: outputs of one head, for qkv.
    options: further keywords of the layer's class, such as gather_output.
    """

    method: Method
    kind: str
    m: int
    shards: Mapping[str, int]
    k: int
    dtype: str = "bfloat16"
    bias: bool = False
    fused: bool = False
    one_scale: bool = False
    backend: str | None = None
    head_size: int = 64
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """The layer's name in the model."""
        return ".".join(_PLACES[self.kind])

    @property
    def subject(self) -> str:
        """The layer as messages name it."""
        flags = ", bias" * self.bias + ", fused" * self.fused + ", one scale" * self.one_scale
        flags += "".join(f", {name}={value}" for name, value in self.options.items())
        return (
            f"{self.method.format.name} {self.kind} layer {_PLACES[self.kind][1]} "
            f"({self.backend or 'default'}, {self.dtype}, {self.shape}{flags})"
        )

    @property
    def shape(self) -> str:
        """`M 16 N 256+256 K 512`."""
        return f"M {self.m} N {'+'.join(str(n) for n in self.shards.values())} K {self.k}"

    def checkpoint(self, rng: np.random.Generator) -> LinearCheckpoint:
        """A random checkpoint for this layer."""
        return linear_checkpoint(
            rng, self.method.format, dict(self.shards), self.k, self.bias, self.one_scale
        )


@dataclass(frozen=True)
class Question:
    """One x (M, K) to give to a layer, exact in its dtype; `padded` makes it a window into NaN."""

    x: Float64
    padded: bool = False


@dataclass(frozen=True)
class Answers:
    """Outputs (M, N), one a question, and findings of memory changed that a caller holds."""

    outputs: list[Float64]
    findings: list[Finding]


@dataclass
class LoadedLinear:
    """A layer that is ready, taking and giving float64 arrays; memory that it takes is poisoned.

    backends: kernels that it chose, by operation.
    """

    case: LinearCase
    layer: LinearBase
    backends: dict[str, str] = field(default_factory=dict)

    @property
    def accumulator(self) -> Accumulator:
        """How the kernel that multiplies adds products up."""
        return self.case.method.accumulator(self.backends)

    @property
    def device_name(self) -> str:
        """`cpu`, or the GPU's product name."""
        device = self.layer.device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"

    def __call__(self, x: Float64) -> Float64:
        """x (…, K) exact in the case's dtype → (…, N)."""
        return self.answer([Question(x)]).outputs[0]

    def answer(self, questions: Sequence[Question]) -> Answers:
        """Every question in turn, while each x and each earlier output is kept and then looked at.

        A layer that writes into its input, or gives two calls one buffer, is right in each call.
        """
        inputs = [self._tensor(question) for question in questions]
        with poisoned_memory():
            held = []
            for x in inputs:
                output = self.layer(x)
                held.append((output, to_numpy(output)))
        findings = _changes("x", "the layer", [q.x for q in questions], inputs)
        outputs = [seen for _, seen in held]
        findings += _changes("output", "a later call", outputs, [output for output, _ in held])
        return Answers(outputs, findings)

    def _tensor(self, question: Question) -> torch.Tensor:
        tensor = floats_to_torch(question.x, DTYPES[self.case.dtype], self.layer.device)
        return padded_view(tensor) if question.padded else tensor


def _changes(
    place: str, by: str, before: Sequence[Float64], after: Sequence[torch.Tensor]
) -> list[Finding]:
    changed = [
        i
        for i, (old, tensor) in enumerate(zip(before, after, strict=True))
        if not np.array_equal(old, to_numpy(tensor), equal_nan=True)
    ]
    if not changed:
        return []
    message = f"{place} of {len(changed)} of {len(before)} calls was changed by {by}"
    return [Finding("memory", "memory", place, f"{message}, first of call {changed[0]}")]


def checkpoint_tensors(case: LinearCase, checkpoint: LinearCheckpoint) -> Iterator[Named]:
    """The checkpoint as a file holds it: ('model.layers.0.mlp.up_proj.weight', tensor) …"""
    parent, leaf = _PLACES[case.kind]
    shards = {
        name: dict(tensors) | ({"bias": checkpoint.bias_shards[name]} if case.bias else {})
        for name, tensors in checkpoint.tensors.items()
    }
    if case.fused:
        suffixes = next(iter(shards.values()))
        shards = {
            leaf: {s: _fused([t[s] for t in shards.values()], case.one_scale) for s in suffixes}
        }
    for name, tensors in shards.items():
        module = name if case.fused else f"{name}_proj" if name else leaf
        for suffix, array in tensors.items():
            if suffix == "bias":
                yield f"{parent}.{module}.bias", floats_to_torch(array, DTYPES[case.dtype])
            else:
                yield f"{parent}.{module}.{suffix}", to_torch(array)


def _fused(parts: list[NDArray[Any]], one_scale: bool) -> NDArray[Any]:
    """Rows one after another; 0-dim scales as (shards,), or as the one scalar that they share."""
    if parts[0].ndim:
        return np.concatenate(parts)
    return parts[0] if one_scale else np.stack(parts)


def quant_config(case: LinearCase) -> QuantizationConfig | None:
    """The config object that the checkpoint's config.json leads to."""
    if case.method.config is None:
        return None
    config = dict(case.method.config) | {"packed_modules_mapping": PACKED}
    method = get_quantization_config(str(config["quant_method"]))
    return method.from_config(config, backend=case.backend)


def new_layer(case: LinearCase, device: torch.device | str) -> LinearBase:
    """The layer as a model constructs it, with no weights yet."""
    options: dict[str, Any] = {
        "bias": case.bias,
        "params_dtype": DTYPES[case.dtype],
        "quant_config": quant_config(case),
        "prefix": case.prefix,
        "device": device,
        **case.options,
    }
    sizes = list(case.shards.values())
    if case.kind == "qkv":
        heads, kv_heads = (n // case.head_size for n in sizes[:2])
        return QKVParallelLinear(case.k, case.head_size, heads, kv_heads, **options)
    if case.kind == "merged":
        return MergedColumnParallelLinear(case.k, sizes, **options)
    single: dict[str, Callable[..., LinearBase]] = {
        "replicated": ReplicatedLinear,
        "column": ColumnParallelLinear,
        "row": RowParallelLinear,
    }
    return single[case.kind](case.k, sizes[0], **options)


def model_of(case: LinearCase, layer: LinearBase) -> torch.nn.Module:
    """A model that holds the layer at its prefix and nothing else."""
    root = module = torch.nn.Module()
    *parents, leaf = case.prefix.split(".")
    for name in parents:
        child = torch.nn.Module()
        module.add_module(name, child)
        module = child
    module.add_module(leaf, layer)
    return root


def build(
    case: LinearCase,
    checkpoint: LinearCheckpoint,
    device: torch.device | str,
    change: Callable[[Iterator[Named]], Iterator[Named]] = lambda tensors: tensors,
) -> LoadedLinear:
    """Construct, load and post-process the layer, in poisoned memory.

    change: alters the checkpoint on its way in, to see whether the checks notice.

    Raises:
        WeightLoadError, BackendUnavailable, ValueError: as the layer does.
    """
    with poisoned_memory():
        layer = new_layer(case, device)
        model = model_of(case, layer)
        load_weights(model, change(checkpoint_tensors(case, checkpoint)), PACKED)
        process_weights_after_loading(model)
    backends = dict(getattr(layer.quant_method, "backends", {}))
    backend_table.count_run(backends)
    return LoadedLinear(case, layer, backends)
