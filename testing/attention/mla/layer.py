"""A real MLA layer, built from a checkpoint's kv_b_proj as a model does, and one call of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from layers.attention.metadata import AttentionMetadata
from layers.attention.mla.kv_cache import MLAKVCache
from layers.attention.mla.layer import MLAAttention
from layers.quantization.base import QuantizationConfig
from layers.quantization.registry import get_quantization_config
from layers.rotary.embedding import RotaryEmbedding
from layers.rotary.scaling import YarnScaling
from layers.weights import load_weights, process_weights_after_loading
from testing.harness import backend_table
from testing.harness.linear import Method
from testing.harness.memory import poisoned_memory
from testing.harness.tensors import DTYPES, KINDS, to_torch
from testing.oracles.arrays import Float64, Mask
from testing.oracles.attention.mla.mla import MlaShape
from testing.oracles.attention.rope.rope import Rope, Yarn
from testing.oracles.checkpoints import LinearCheckpoint, linear_checkpoint
from testing.oracles.rounding import FloatType
from testing.oracles.unquantised_formats import Unquantised

PREFIX = "model.layers.0.self_attn"
UNQUANTISED = Method(Unquantised(), None)
UNQUANTISED_FP16 = Method(Unquantised("float16"), None)
SMALL = MlaShape(heads=4, nope=32, v=48, rank=128, rope=Rope(16))
YARN = Rope(64, scaling=Yarn(40.0, 4096, mscale=1.0, mscale_all_dim=1.0))
DEEPSEEK = MlaShape(heads=16, nope=128, v=128, rank=512, rope=YARN)
"""Sizes of DeepSeek-V2 and V3, with the heads of one rank of eight."""
Named = tuple[str, torch.Tensor]


@dataclass(frozen=True)
class MlaCase:
    """One layer and one call of it.

    mode: "extend", "decode" or "draft"; query_lens and kv_lens as in `Paged`.
    order, shared_pages: of `testing.harness.attention.pages.plan_pages`.
    tree: (S, S) that the drafts of every other request see of each other; None: a chain.
    backend, path: asked for.
    fp8_scale: of a cache of float8_e4m3fn; None: the cache is of `dtype`.
    """

    mode: str
    query_lens: tuple[int, ...]
    kv_lens: tuple[int, ...]
    page_size: int = 16
    order: str = "shuffled"
    shared_pages: int = 0
    tree: Mask | None = None
    shape: MlaShape = SMALL
    method: Method = UNQUANTISED
    dtype: str = "bfloat16"
    backend: Any = "torch"
    path: str = "auto"
    fp8_scale: float | None = None

    @property
    def kind(self) -> FloatType:
        """The float type of q, kv_c, k_pe and the output."""
        return KINDS[self.dtype]

    @property
    def drafts(self) -> Mask | None:
        """(S, S) of a draft call's first request."""
        if self.mode != "draft":
            return None
        return self.drafts_of(0)

    def drafts_of(self, request: int) -> Mask:
        """(S, S) of a request of a draft call: beside trees every other one has a chain."""
        size = self.query_lens[request]
        if self.tree is None or request % 2:
            return np.tril(np.ones((size, size), bool))
        return self.tree

    @property
    def subject(self) -> str:
        """As messages name it."""
        cache = "" if self.fp8_scale is None else f", fp8 cache of scale {self.fp8_scale:g}"
        drafts = "" if self.mode != "draft" else ", chain" if self.tree is None else ", tree"
        return (
            f"{self.method.format.name} MLA layer ({self.backend}, {self.dtype}, {self.path} path, "
            f"{self.mode} {_short(self.query_lens)} of {_short(self.kv_lens)}, {self.order} pages "
            f"of {self.page_size}{drafts}{cache}, H {self.shape.heads} R {self.shape.rank})"
        )

    def checkpoint(self, rng: np.random.Generator) -> LinearCheckpoint:
        """A random kv_b_proj."""
        shape = self.shape
        rows = shape.heads * (shape.nope + shape.v)
        return linear_checkpoint(rng, self.method.format, {"": rows}, shape.rank)


def _short(lengths: Sequence[int]) -> str:
    return "+".join(map(str, lengths[:6])) + ("+…" if len(lengths) > 6 else "")


def rotary_of(rope: Rope, max_position: int = 8320) -> RotaryEmbedding:
    """The layer's own rotary embedding of an oracle's."""
    scaling = None
    if isinstance(rope.scaling, Yarn):
        yarn = rope.scaling
        scaling = YarnScaling(
            yarn.factor,
            yarn.original,
            yarn.beta_fast,
            yarn.beta_slow,
            yarn.mscale,
            yarn.mscale_all_dim,
        )
    return RotaryEmbedding(rope.dim, rope.base, max_position, rope.style, scaling)


def quant_config(method: Method) -> QuantizationConfig | None:
    """The config object that the checkpoint's config.json leads to."""
    if method.config is None:
        return None
    name = str(method.config["quant_method"])
    return get_quantization_config(name).from_config(dict(method.config))


def new_layer(case: MlaCase, device: torch.device | str, **options: Any) -> MLAAttention:
    """The layer as a model constructs it, with no weights yet."""
    shape = case.shape
    layer = MLAAttention(
        shape.heads,
        shape.nope,
        shape.rope.dim,
        shape.v,
        shape.rank,
        scaling=shape.scaling,
        quant_config=quant_config(case.method),
        rotary=rotary_of(shape.rope).to(device),
        params_dtype=DTYPES[case.dtype],
        prefix=PREFIX,
        backend=case.backend,
        path=case.path,
        device=device,
        **options,
    )
    return layer


def model_of(layer: MLAAttention) -> torch.nn.Module:
    """The layer within its parents, so that checkpoint names lead to it."""
    root = module = torch.nn.Module()
    *parents, leaf = PREFIX.split(".")
    for name in parents:
        child = torch.nn.Module()
        module.add_module(name, child)
        module = child
    module.add_module(leaf, layer)
    return root


def checkpoint_tensors(checkpoint: LinearCheckpoint) -> Iterator[Named]:
    """As a file holds them: ("model.layers.0.self_attn.kv_b_proj.weight", tensor) …"""
    for suffix, array in checkpoint.tensors[""].items():
        yield f"{PREFIX}.kv_b_proj.{suffix}", to_torch(array)


@dataclass
class LoadedMla:
    """A layer that is ready. made: backends of kv_b_proj's product by operation."""

    case: MlaCase
    layer: MLAAttention
    made: dict[str, str] = field(default_factory=dict)

    @property
    def device_name(self) -> str:
        """`cpu`, or the GPU's product name."""
        device = self.layer.device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def build(
    case: MlaCase,
    checkpoint: LinearCheckpoint,
    device: torch.device | str,
    change: Callable[[Iterator[Named]], Iterator[Named]] = lambda tensors: tensors,
    **options: Any,
) -> LoadedMla:
    """Construct, load and post-process, in poisoned memory; `change` alters the checkpoint."""
    with poisoned_memory():
        layer = new_layer(case, device, **options)
        model = model_of(layer)
        load_weights(model, change(checkpoint_tensors(checkpoint)))
        process_weights_after_loading(model)
    method: Any = layer.kv_b_proj.quant_method
    return LoadedMla(case, layer, dict(getattr(method, "backends", {})))


@dataclass(frozen=True)
class Inputs:
    """A call's arguments, as tensors on the layer's device."""

    q: torch.Tensor
    kv_c: torch.Tensor
    k_pe: torch.Tensor
    positions: torch.Tensor
    cache: MLAKVCache
    metadata: AttentionMetadata

    def forward(self, layer: MLAAttention) -> torch.Tensor:
        """(T, H·v)."""
        out: torch.Tensor = layer(
            self.q, self.kv_c, self.k_pe, self.positions, self.cache, self.metadata
        )
        return out


def count_run(loaded: LoadedMla, use: str) -> None:
    """Have the backend of a use in the table at the end of the test."""
    operation = "mla_unabsorbed" if use == "unabsorbed" else "mla_absorbed"
    backend_table.count_run({operation: loaded.layer.backends[use]})


def heads_of(output: torch.Tensor, case: MlaCase) -> Float64:
    """(T, H·v) → (T, H, v) float64."""
    values = output.detach().to("cpu", torch.float64).numpy()
    return np.asarray(values.reshape(len(values), -1, case.shape.v))
