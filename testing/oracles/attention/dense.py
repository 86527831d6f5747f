"""Attention of one request in float64, from the definition (Vaswani et al., arXiv:1706.03762).

For query i of head h, over the keys j that it sees, of key-value head h // (Hq / Hkv):

    x_ij = scaling·(q_i·k_j);  with a soft cap x ← cap·tanh(x / cap)  (Gemma 2, arXiv:2408.00118)
    o_i = Σ_j exp(x_ij)·v_j / (Σ_j exp(x_ij) + exp(sink_h))

A sink is one more key of value 0, whose logit is a parameter of the head, neither scaled nor capped
(gpt-oss, arXiv:2508.10925). A window W leaves the keys of positions p - W < j ≤ p.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testing.oracles.arrays import Float64, Mask
from testing.oracles.attention.masks import causal, drafts, in_window
from testing.oracles.attention.paging import Int64


@dataclass(frozen=True)
class Rule:
    """What a layer computes.

    heads, kv_heads: Hq, Hkv.
    window: W keys that a query sees, itself included; None: all before it.
    soft_cap: 0 for none.
    sinks: (Hq,) float64, or None.
    """

    heads: int
    kv_heads: int
    scaling: float
    window: int | None = None
    soft_cap: float = 0.0
    sinks: Float64 | None = None

    def kv_head_of(self) -> Int64:
        """(Hq,): the key-value head of each query head."""
        return np.arange(self.heads) // (self.heads // self.kv_heads)


@dataclass(frozen=True)
class Request:
    """One request's part of a call, as the kernel sees it: dequantised.

    q: (S, Hq, D) float64; k: (L, Hkv, D); v: (L, Hkv, Dv). The last S keys are this call's.
    tree: (S, S), which drafts each draft sees; None: causal.
    positions: (S,) of the queries; None: L - S + i.
    """

    q: Float64
    k: Float64
    v: Float64
    tree: Mask | None = None
    positions: Int64 | None = None

    @property
    def queries(self) -> int:
        """S."""
        return len(self.q)

    @property
    def length(self) -> int:
        """L, this call's tokens included."""
        return len(self.k)

    def query_positions(self) -> Int64:
        """(S,)."""
        if self.positions is not None:
            return self.positions
        return np.arange(self.length - self.queries, self.length)

    def key_positions(self) -> Int64:
        """(L,): the index in the prefix, then the queries' own."""
        prefix = np.arange(self.length - self.queries)
        return np.concatenate([prefix, self.query_positions()])

    def visible(self, window: int | None) -> Mask:
        """(S, L): which keys each query sees."""
        if self.tree is None:
            seen = causal(self.queries, self.length)
        else:
            seen = drafts(self.tree, self.length)
        if window is None:
            return seen
        return seen & in_window(self.query_positions(), self.key_positions(), window)


@dataclass(frozen=True)
class Attended:
    """What the definition makes of a request, and what errors scale with.

    k: (Hq, L, D), v: (Hq, L, Dv): those of each query head.
    raw: (Hq, S, L) logits before a soft cap; logits: after it, -inf where the query sees nothing.
    top: (Hq, S) largest logit, the sink's included.
    weights: (Hq, S, L) exp(logit - top); total: (Hq, S) their sum, the sink's included.
    """

    rule: Rule
    q: Float64
    k: Float64
    v: Float64
    raw: Float64
    logits: Float64
    top: Float64
    weights: Float64
    total: Float64

    @cached_property
    def probabilities(self) -> Float64:
        """(Hq, S, L)."""
        return np.asarray(self.weights / self.total[..., None])

    @cached_property
    def output(self) -> Float64:
        """(S, Hq, Dv)."""
        return np.asarray((self.probabilities @ self.v).transpose(1, 0, 2))


def attend(
    request: Request, rule: Rule, visible: Mask | None = None, kv_head_of: Int64 | None = None
) -> Attended:
    """The definition, for one request.

    visible: (S, L), in place of what the request and the window say.
    kv_head_of: (Hq,), in place of the rule's: for what a wrong layer would give.

    Raises:
        ValueError: a query that sees no key at all, and no sink: its output is not defined.
    """
    seen = request.visible(rule.window) if visible is None else visible
    if rule.sinks is None and not seen.any(axis=1).all():
        raise ValueError(f"query {int((~seen.any(axis=1)).argmax())} sees no key")
    of_head = rule.kv_head_of() if kv_head_of is None else kv_head_of
    q = request.q.transpose(1, 0, 2)
    k, v = (np.ascontiguousarray(a[:, of_head].transpose(1, 0, 2)) for a in (request.k, request.v))
    raw = rule.scaling * (q @ k.transpose(0, 2, 1))
    logits = rule.soft_cap * np.tanh(raw / rule.soft_cap) if rule.soft_cap else raw
    logits = np.where(seen, logits, -np.inf)
    top = logits.max(axis=2)
    if rule.sinks is not None:
        top = np.maximum(top, rule.sinks[:, None])
    weights = np.exp(logits - top[..., None])
    total = weights.sum(axis=2)
    if rule.sinks is not None:
        total = total + np.exp(rule.sinks[:, None] - top)
    return Attended(rule, q, k, v, raw, logits, top, weights, total)
