"""One call of an MLA layer: random inputs, the oracle's view of them, and the layer's tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from layers.attention.metadata import AttentionMetadata
from layers.attention.mla.kv_cache import MLAKVCache
from testing.attention.mla.layer import Inputs, MlaCase
from testing.harness.attention.pages import PagePlan, nan_pages, plan_pages
from testing.harness.tensors import DTYPES, floats_to_torch
from testing.oracles.arrays import Float64
from testing.oracles.attention import cached
from testing.oracles.attention.masks import depths
from testing.oracles.attention.mla.mla import MlaCall
from testing.oracles.attention.mla.paged import Paged
from testing.oracles.attention.paging import Int64
from testing.oracles.attention.rope.rope import rotate
from testing.oracles.checkpoints import LinearCheckpoint
from testing.oracles.rounding import round_to, ulp

LOGITS = 1.5
"""Standard deviation of the logits: attention that is neither flat nor all on one key."""


@dataclass(frozen=True)
class Call:
    """plan: who owns which page. rows: (kv_len, R + rope) of each request, as its cache holds them.

    exact: what the oracle computes.
    """

    case: MlaCase
    plan: PagePlan
    rows: list[Float64]
    exact: MlaCall

    @property
    def known(self) -> list[int]:
        """Tokens of each request that lie in the cache before the call."""
        case = self.case
        return [k - q for q, k in zip(case.query_lens, case.kv_lens, strict=True)]

    def inputs(self, device: torch.device | str) -> Inputs:
        """Fresh tensors and pages."""
        case, exact = self.case, self.exact
        dtype = DTYPES[case.dtype]
        pages = self.pages(device)
        cache = MLAKVCache(
            self.plan.num_pages,
            case.page_size,
            case.shape.rank,
            case.shape.rope.dim,
            pages.dtype,
            device,
            case.fp8_scale or 1.0,
        )
        cache.pages.view(torch.uint8).copy_(pages.view(torch.uint8))
        q, kv_c, k_pe = (
            floats_to_torch(x, dtype, device) for x in (exact.q, exact.latent, exact.k_pe)
        )
        positions = torch.from_numpy(exact.positions).to(device)
        return Inputs(q, kv_c, k_pe, positions, cache, self.metadata(device))

    def pages(self, device: torch.device | str) -> torch.Tensor:
        """The cache before the call: NaN wherever no request has a token."""
        case = self.case
        if case.fp8_scale is None:
            dtype = DTYPES[case.dtype]
            rows = [floats_to_torch(row, dtype) for row in self.rows]
            return nan_pages(self.plan, rows, self.known, dtype, device)
        codes = [
            torch.from_numpy(np.asarray(cached.encode(row, case.fp8_scale))) for row in self.rows
        ]
        return nan_pages(self.plan, codes, self.known, torch.float8_e4m3fn, device)

    def metadata(self, device: torch.device | str) -> AttentionMetadata:
        """Of the batch."""
        case, table = self.case, self.plan.table(device)
        if case.mode == "decode":
            return AttentionMetadata.decode(case.kv_lens, table, case.page_size)
        if case.mode == "extend":
            return AttentionMetadata.extend(case.query_lens, case.kv_lens, table, case.page_size)
        drafts = [case.drafts_of(b) for b in range(len(case.kv_lens))]
        masks = torch.from_numpy(np.stack(drafts)).to(device)
        return AttentionMetadata.draft(case.kv_lens, table, case.page_size, masks)


def random_call(case: MlaCase, checkpoint: LinearCheckpoint, rng: np.random.Generator) -> Call:
    """Normal inputs under which the logits scatter by LOGITS; a cache as earlier calls left it."""
    shape, kind = case.shape, case.kind
    plan = plan_pages(rng, case.kv_lens, case.page_size, case.order, case.shared_pages)
    positions = np.concatenate([_positions(case, b) for b in range(len(case.kv_lens))])
    tokens = len(positions)
    latent = _latents(case, checkpoint, rng, tokens)
    k_pe = round_to(rng.standard_normal((tokens, shape.rope.dim)), kind)
    turned = round_to(rotate(k_pe, positions, shape.rope), kind)
    rows, start = [], 0
    for queries, length in zip(case.query_lens, case.kv_lens, strict=True):
        before = _prefix(case, rng, length - queries)
        new = slice(start, start + queries)
        rows.append(np.concatenate([before, np.concatenate([latent[new], turned[new]], axis=1)]))
        start += queries
    if case.shared_pages:
        rows[1][: case.shared_pages * case.page_size] = rows[0][
            : case.shared_pages * case.page_size
        ]
    exact = MlaCall(
        shape,
        _paged(case, plan),
        checkpoint.weight,
        round_to(_query_size(case, checkpoint) * rng.standard_normal(_q_shape(case, tokens)), kind),
        latent,
        k_pe,
        positions,
        np.zeros(0),
        checkpoint.activations.encode(latent).values,
    )
    call = Call(case, plan, rows, exact)
    return replace(call, exact=replace(exact, cache=_decoded(call)))


def _q_shape(case: MlaCase, tokens: int) -> tuple[int, int, int]:
    return tokens, case.shape.heads, case.shape.nope + case.shape.rope.dim


def _positions(case: MlaCase, request: int) -> Int64:
    queries, length = case.query_lens[request], case.kv_lens[request]
    if case.drafts is not None:
        return np.asarray(length - queries + depths(case.drafts_of(request)))
    return np.arange(length - queries, length)


def _paged(case: MlaCase, plan: PagePlan) -> Paged:
    requests = range(len(case.kv_lens))
    trees = None if case.drafts is None else np.stack([case.drafts_of(b) for b in requests])
    return Paged(case.query_lens, case.kv_lens, plan.tables, case.page_size, trees)


def _query_size(case: MlaCase, checkpoint: LinearCheckpoint) -> float:
    """Deviation of q that gives logits of LOGITS."""
    shape = case.shape
    heads = checkpoint.weight.reshape(shape.heads, -1, shape.rank)[:, : shape.nope]
    key = float((heads**2).sum(axis=(1, 2)).mean()) + shape.rope.dim * shape.rope.magnitude() ** 2
    return float(LOGITS / (shape.scale * np.sqrt(key)))


def _latents(
    case: MlaCase, checkpoint: LinearCheckpoint, rng: np.random.Generator, tokens: int
) -> Float64:
    """(T, R) of size 1, as a norm leaves them, whose codes are beyond doubt."""
    x = round_to(rng.standard_normal((tokens, case.shape.rank)), case.kind)
    for _ in range(8):
        doubtful = checkpoint.activations.encode(x).near_tie
        if case.fp8_scale is not None:
            doubtful = doubtful | cached.near_ties(x, case.fp8_scale)
        if not doubtful.any():
            return x
        x = np.where(doubtful, x + np.copysign(ulp(x, case.kind), x), x)
    raise ValueError(f"{case.subject}: some kv_c stay near a tie of the quantiser")


def _prefix(case: MlaCase, rng: np.random.Generator, tokens: int) -> Float64:
    x = round_to(rng.standard_normal((tokens, case.shape.rank + case.shape.rope.dim)), case.kind)
    return x if case.fp8_scale is None else cached.settled(x, case.fp8_scale, case.kind)


def _decoded(call: Call) -> Float64:
    """(pages, page_size, R + rope) values, NaN wherever no request has a token."""
    pages = call.pages("cpu")
    scale = call.case.fp8_scale
    if scale is None:
        return np.asarray(pages.to(torch.float64).numpy())
    return cached.decode(pages.view(torch.uint8).numpy(), scale)


def as_stored(call: Call, written: Float64) -> Call:
    """The call whose oracle takes this call's tokens as the cache holds them: written (T, …)."""
    return replace(call, exact=replace(call.exact, stored=written))
