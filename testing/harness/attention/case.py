"""What to build and what to call it with: an attention layer's case, and batches of requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from testing.harness.attention.pages import PagePlan, plan_pages
from testing.harness.tensors import KINDS
from testing.oracles.arrays import Float64, Mask
from testing.oracles.attention import cached
from testing.oracles.attention.arithmetic import FLOAT32, TENSOR_CORES, Arithmetic
from testing.oracles.attention.dense import Request, Rule
from testing.oracles.attention.masks import chain, depths, tree_of
from testing.oracles.attention.paging import Int64
from testing.oracles.rounding import FloatType, round_to

TREE = (-1, 0, 0, 1, 1, 2, 3)
"""Parents of seven drafts: a root, two children, three grandchildren and one below."""
# Neither a power of two, nor one the other's multiple by one.
FP8_SCALES = (0.0371, 0.0217)
_SHARPNESS = 2.0
"""Deviation of logits: a few keys of a short context carry most of the weight."""


@dataclass(frozen=True)
class AttentionCase:
    """One layer, and the cache it works on.

    window: W keys seen; None: dense.
    fp8: the cache holds e4m3 codes under `scales` (k, v).
    arithmetic: what the backend rounds.
    """

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int | None = None
    window: int | None = None
    soft_cap: float = 0.0
    sinks: bool = False
    dtype: str = "bfloat16"
    fp8: bool = False
    scales: tuple[float, float] = FP8_SCALES
    page_size: int = 16
    scaling: float | None = None
    backend: str = "torch"
    arithmetic: Arithmetic = FLOAT32

    @property
    def kind(self) -> FloatType:
        """The float type of q, k, v and the output."""
        return KINDS[self.dtype]

    @property
    def dims(self) -> tuple[int, int]:
        """D, Dv."""
        return self.head_dim, self.v_head_dim or self.head_dim

    @property
    def subject(self) -> str:
        """The layer as messages name it."""
        kind = "dense" if self.window is None else f"window {self.window}"
        flags = f", cap {self.soft_cap:g}" * bool(self.soft_cap) + ", sinks" * self.sinks
        flags += ", fp8 cache" * self.fp8
        d, dv = self.dims
        size = f"{d}" if d == dv else f"{d}/{dv}"
        return (
            f"{kind} attention ({self.backend}, {self.dtype}, {self.heads} heads of {size} on "
            f"{self.kv_heads}, pages of {self.page_size}{flags})"
        )

    def rule(self, sinks: Float64 | None) -> Rule:
        """What the layer computes."""
        scaling = self.head_dim**-0.5 if self.scaling is None else self.scaling
        return Rule(self.heads, self.kv_heads, scaling, self.window, self.soft_cap, sinks)

    def random_sinks(self, rng: np.random.Generator) -> Float64 | None:
        """(Hq,): of the logits' size, exact in bf16."""
        if not self.sinks:
            return None
        return round_to(_SHARPNESS * rng.standard_normal(self.heads) + 1, KINDS["bfloat16"])


def on_backend(case: AttentionCase, backend: str) -> AttentionCase:
    """The case on a backend, with what that rounds."""
    arithmetic = ARITHMETIC[backend]
    if backend == "flashinfer" and case.fp8:
        arithmetic = replace(arithmetic, output_roundings=2)
    return replace(case, backend=backend, arithmetic=arithmetic)


ARITHMETIC: dict[str, Arithmetic] = {
    "torch": FLOAT32,
    "triton": TENSOR_CORES,
    "flashinfer": replace(TENSOR_CORES, tanh=2.0**-11),
}
"""Declared by each backend of layers/kernels/attention."""


@dataclass(frozen=True)
class Call:
    """One forward: its mode and its requests.

    requests: (prefix, new tokens) of each; one new token each for "decode", as many for all in
        "draft".
    parents: of drafts, a tree, of every other request; None: chains. all_drafts: each sees all of
        them, those ahead too.
    order: of pages in the pool; shared_pages: that requests 0 and 1 have in common.
    garbage: what page tables hold past a request's pages; None: pages of NaN, or -1.
    split: q, k and v are slices of one fused tensor, as a projection leaves them.
    """

    mode: str
    requests: tuple[tuple[int, int], ...]
    parents: tuple[int, ...] | None = None
    all_drafts: bool = False
    order: str = "shuffled"
    shared_pages: int = 0
    garbage: int | None = None
    split: bool = True

    @property
    def lengths(self) -> list[int]:
        """Tokens of each request, this call's included."""
        return [prefix + new for prefix, new in self.requests]

    @property
    def query_lens(self) -> list[int]:
        """New tokens of each request."""
        return [new for _, new in self.requests]

    def tree(self, request: int = 0) -> Mask | None:
        """(S, S) of a request, or None. Beside trees every other request has a chain."""
        if self.mode != "draft":
            return None
        drafts = self.requests[0][1]
        if self.all_drafts:
            return np.ones((drafts, drafts), bool)
        is_chain = self.parents is None or request % 2
        return chain(drafts) if is_chain else tree_of(list(self.parents or ()))

    def __str__(self) -> str:
        drafts = " tree" if self.parents else " all seen" if self.all_drafts else ""
        text = ", ".join(f"{prefix}+{new}" for prefix, new in self.requests)
        shared = f", {self.shared_pages} shared pages" if self.shared_pages else ""
        return f"{self.mode}{drafts} of {text} ({self.order}{shared})"


@dataclass(frozen=True)
class Batch:
    """A call with its numbers.

    requests: as the kernel should see them: dequantised, this call's tokens included.
    raw: (k, v) of each request before an fp8 cache's codes, exact in the case's dtype.
    """

    case: AttentionCase
    call: Call
    plan: PagePlan
    requests: list[Request]
    raw: list[tuple[Float64, Float64]] = field(repr=False)

    @property
    def positions(self) -> Int64:
        """(T,) of every query."""
        return np.concatenate([request.query_positions() for request in self.requests])

    @property
    def written(self) -> Int64:
        """(T,) slots of this call's tokens."""
        return np.concatenate(
            [self.plan.slots(b, prefix) for b, (prefix, _) in enumerate(self.call.requests)]
        )

    def new(self, which: int) -> Float64:
        """(T, Hkv, ·): this call's k (0) or v (1)."""
        return np.concatenate(
            [
                pair[which][prefix:]
                for pair, (prefix, _) in zip(self.raw, self.call.requests, strict=True)
            ]
        )

    def q(self) -> Float64:
        """(T, Hq, D)."""
        return np.concatenate([request.q for request in self.requests])


def make_batch(case: AttentionCase, call: Call, rng: np.random.Generator) -> Batch:
    """Random q, k, v of a call, exact in the case's dtype; a shared prefix is the same."""
    # Only pages that both prefixes fill: nobody may write into a shared one.
    full = min(prefix for prefix, _ in call.requests[:2]) // case.page_size
    shared = min(call.shared_pages, full)
    plan = plan_pages(rng, call.lengths, case.page_size, call.order, shared, call.garbage)
    raw = [_key_values(case, length, rng) for length in call.lengths]
    common = shared * case.page_size
    for first, second in zip(*raw[:2], strict=True) if common else ():
        second[:common] = first[:common]
    requests = []
    for b, ((prefix, new), (k, v)) in enumerate(zip(call.requests, raw, strict=True)):
        tree = call.tree(b)
        q = rng.standard_normal((new, case.heads, case.head_dim)) * _sharpness(case)
        positions = None if call.parents is None or tree is None else prefix + depths(tree)
        seen = _as_cached(case, k, v)
        requests.append(Request(round_to(q, case.kind), *seen, tree, positions))
    return Batch(case, call, plan, requests, raw)


def _sharpness(case: AttentionCase) -> float:
    """Scale of q under which logits have the deviation wanted, whatever scaling and head size."""
    return float(_SHARPNESS / (case.rule(None).scaling * case.head_dim**0.5))


def _key_values(
    case: AttentionCase, length: int, rng: np.random.Generator
) -> tuple[Float64, Float64]:
    k, v = (
        round_to(rng.standard_normal((length, case.kv_heads, size)), case.kind)
        for size in case.dims
    )
    if case.fp8:
        k, v = (cached.settled(x, s, case.kind) for x, s in zip((k, v), case.scales, strict=True))
    return k, v


def _as_cached(case: AttentionCase, k: Float64, v: Float64) -> tuple[Float64, Float64]:
    if not case.fp8:
        return k, v
    k, v = (cached.decode(cached.encode(x, s), s) for x, s in zip((k, v), case.scales, strict=True))
    return k, v


def around_a_page_edge(page: int = 16) -> tuple[tuple[int, int], ...]:
    """Prefixes 0 and about an edge of a page, new tokens about a page: sixteen requests, and 1."""
    prefixes = (0, page - 2, page - 1, page)
    news = (1, page - 1, page, page + 1)
    return tuple((prefix, new) for prefix in prefixes for new in news)


def prefixes(lengths: Sequence[int], new: int = 1) -> tuple[tuple[int, int], ...]:
    """Requests of these prefixes with `new` tokens each."""
    return tuple((length, new) for length in lengths)
