"""Build a real attention layer, load it as a model does, and hand it a batch of numpy arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from layers.attention.kv_cache import PagedKVCache
from layers.attention.layer import Attention
from layers.attention.metadata import AttentionMetadata
from layers.weights import load_weights, process_weights_after_loading
from testing.harness import backend_table
from testing.harness.attention.case import AttentionCase, Batch
from testing.harness.attention.pages import check_writes, frozen, nan_pages
from testing.harness.memory import poisoned_memory
from testing.harness.tensors import DTYPES, floats_to_torch, to_numpy, to_torch
from testing.harness.verdict import Finding
from testing.oracles.arrays import Float64
from testing.oracles.attention import cached

PREFIX = "model.layers.0.self_attn.attn"


@dataclass
class LoadedAttention:
    """A layer that is ready. sinks: (Hq,) that the checkpoint held, or None."""

    case: AttentionCase
    layer: Attention
    sinks: Float64 | None

    @property
    def device_name(self) -> str:
        """`cpu`, or the GPU's product name."""
        device = self.layer.device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


@dataclass(frozen=True)
class Tensors:
    """A batch on the layer's device: what forward takes."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    cache: PagedKVCache
    metadata: AttentionMetadata


@dataclass(frozen=True)
class Share:
    """The heads of a whole layer that one rank has: query heads, and key-value heads."""

    query: slice
    kv: slice


WHOLE = Share(slice(None), slice(None))


@dataclass(frozen=True)
class Answer:
    """output: (T, Hq, Dv); findings of memory that was or was not written."""

    output: Float64
    findings: list[Finding]


def build(
    case: AttentionCase,
    rng: np.random.Generator,
    device: torch.device | str,
    prefix: str = PREFIX,
) -> LoadedAttention:
    """Construct, load through the real loader and post-process the layer, in poisoned memory.

    Raises:
        BackendUnavailable, WeightLoadError, ValueError: as the layer does.
    """
    sinks = case.random_sinks(rng)
    with poisoned_memory():
        layer = new_layer(case, device, prefix)
        model = model_of(layer, prefix)
        if sinks is not None:
            tensor = floats_to_torch(sinks, torch.bfloat16)
            load_weights(model, [(f"{prefix}.sinks", tensor)])
        process_weights_after_loading(model)
    backend_table.count_run({"attention": case.backend})
    return LoadedAttention(case, layer, sinks)


def new_layer(case: AttentionCase, device: torch.device | str, prefix: str = PREFIX) -> Attention:
    """The layer as a model constructs it."""
    return Attention(
        case.heads,
        case.kv_heads,
        case.head_dim,
        v_head_dim=case.v_head_dim,
        scaling=case.scaling,
        sliding_window=case.window,
        logit_soft_cap=case.soft_cap,
        has_sinks=case.sinks,
        params_dtype=DTYPES[case.dtype],
        prefix=prefix,
        backend=case.backend,
        device=device,
    )


def model_of(layer: torch.nn.Module, prefix: str = PREFIX) -> torch.nn.Module:
    """A model that holds the layer at its prefix and nothing else."""
    root = module = torch.nn.Module()
    *parents, leaf = prefix.split(".")
    for name in parents:
        child = torch.nn.Module()
        module.add_module(name, child)
        module = child
    module.add_module(leaf, layer)
    return root


def tensors_of(batch: Batch, device: torch.device | str, share: Share = WHOLE) -> Tensors:
    """q, k, v, a cache that is NaN where nobody may read, and metadata; see `pages`."""
    case, call, plan = batch.case, batch.call, batch.plan
    dtype = DTYPES[case.dtype]
    parts = [batch.q()[:, share.query], batch.new(0)[:, share.kv], batch.new(1)[:, share.kv]]
    q, k, v = _fused(parts, dtype, device) if call.split else _apart(parts, dtype, device)
    cache = PagedKVCache(
        plan.num_pages,
        plan.page_size,
        parts[1].shape[1],
        case.head_dim,
        case.v_head_dim,
        torch.float8_e4m3fn if case.fp8 else dtype,
        device,
        *(case.scales if case.fp8 else ()),
    )
    known = [prefix for prefix, _ in call.requests]
    for which, pages in enumerate((cache.k, cache.v)):
        rows = [stored(case, pair[which][:, share.kv], which) for pair in batch.raw]
        pages.copy_(nan_pages(plan, rows, known, pages.dtype, device))
    return Tensors(q, k, v, cache, metadata_of(batch, device))


def stored(case: AttentionCase, x: Float64, which: int) -> torch.Tensor:
    """x of any shape as the cache's pages of k (0) or v (1) hold it; codes as uint8."""
    if case.fp8:
        return to_torch(cached.encode(x, case.scales[which]))
    return floats_to_torch(x, DTYPES[case.dtype])


def _fused(
    parts: list[Float64], dtype: torch.dtype, device: torch.device | str
) -> Iterable[torch.Tensor]:
    """Slices of one tensor (T, all widths), as the projection of q, k and v leaves them."""
    tokens, widths = len(parts[0]), [p.shape[1] * p.shape[2] for p in parts]
    whole = np.concatenate([p.reshape(tokens, -1) for p in parts], axis=1)
    pieces = floats_to_torch(whole, dtype, device).split(widths, dim=1)
    return [piece.unflatten(1, p.shape[1:]) for piece, p in zip(pieces, parts, strict=True)]


def _apart(
    parts: list[Float64], dtype: torch.dtype, device: torch.device | str
) -> Iterable[torch.Tensor]:
    return [floats_to_torch(np.ascontiguousarray(part), dtype, device) for part in parts]


def metadata_of(batch: Batch, device: torch.device | str) -> AttentionMetadata:
    """As an engine makes it."""
    call, table = batch.call, batch.plan.table(device)
    if call.mode == "decode":
        return AttentionMetadata.decode(call.lengths, table, batch.plan.page_size)
    if call.mode == "extend":
        return AttentionMetadata.extend(call.query_lens, call.lengths, table, batch.plan.page_size)
    trees = [call.tree(b) for b in range(len(call.requests))]
    mask = torch.from_numpy(np.stack([tree for tree in trees if tree is not None])).to(device)
    positions = None
    if call.parents is not None:
        stacked = np.stack([request.query_positions() for request in batch.requests])
        positions = torch.from_numpy(stacked).to(device)
    return AttentionMetadata.draft(call.lengths, table, batch.plan.page_size, mask, positions)


def ask(loaded: LoadedAttention, batch: Batch, share: Share = WHOLE) -> Answer:
    """One forward, and what became of the cache and of what the caller holds."""
    t = tensors_of(batch, loaded.layer.device, share)
    held = {"q": t.q, "k": t.k, "v": t.v, "page table": t.metadata.page_table}
    inputs = {name: tensor.clone() for name, tensor in held.items()}
    before = [frozen(pages) for pages in (t.cache.k, t.cache.v)]
    with poisoned_memory():
        output = loaded.layer(t.q, t.k, t.v, t.cache, t.metadata)
    findings = written(batch, t.cache, before, share)
    for name, tensor in held.items():
        if not torch.equal(tensor, inputs[name]):
            message = f"{name} was changed by the layer"
            findings.append(Finding("memory", "memory", name, message))
    heads = t.q.shape[1]
    return Answer(to_numpy(output).reshape(-1, heads, loaded.case.dims[1]), findings)


def written(
    batch: Batch, cache: PagedKVCache, before: list[NDArray[np.int16]], share: Share = WHOLE
) -> list[Finding]:
    """Exactly this call's slots hold exactly what the call brought."""
    findings = []
    for which, (name, pages) in enumerate((("k", cache.k), ("v", cache.v))):
        wanted = stored(batch.case, batch.new(which)[:, share.kv], which)
        findings += check_writes(name, batch.plan, before[which], pages, batch.written, wanted)
    return findings
