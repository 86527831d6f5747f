"""Multi-head latent attention from its definition, unabsorbed, in float64.

DeepSeek-V2 (arXiv:2405.04434, section 2.1 and appendix C). With c the latent vector of a token (R),
of head h

    k_j = [W_UK c_j | R(p_j) k_pe_j],  v_j = W_UV c_j,  q_t = [q_nope_t | R(p_t) q_pe_t],
    o_t = Σ_j softmax_j(scaling·q_t·k_j) v_j  over the positions j that t sees.

kv_b_proj's weight holds, head after head, `nope` rows of W_UK and then `v` rows of W_UV. A page
holds a token's [c | R(p) k_pe].
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.attention.mla.paged import Paged
from testing.oracles.attention.paging import Int64
from testing.oracles.attention.rope.rope import Rope, rotate


@dataclass(frozen=True)
class MlaShape:
    """heads: H; nope, v: sizes of a head; rank: R; rope: of the part that heads share."""

    heads: int
    nope: int
    v: int
    rank: int
    rope: Rope
    scaling: float | None = None

    @property
    def scale(self) -> float:
        """What q·k is multiplied by."""
        return self.scaling or (self.nope + self.rope.dim) ** -0.5


@dataclass(frozen=True)
class Head:
    """One head of one request: q queries, n positions.

    logits: scaled, -inf where not seen. queries (q, nope + rope) and keys (n, nope + rope) are
    rotated. values: (n, v). latents: (n, R + rope), a page's rows, unrounded for new tokens.
    """

    request: int
    head: int
    queries: Float64
    keys: Float64
    values: Float64
    latents: Float64
    logits: Float64

    @cached_property
    def probabilities(self) -> Float64:
        """(q, n)."""
        p = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    @cached_property
    def output(self) -> Float64:
        """(q, v)."""
        return self.probabilities @ self.values


@dataclass(frozen=True)
class MlaCall:
    """What goes into one forward.

    weight: (H·(nope + v), R) kv_b_proj's, decoded.
    q: (T, H, nope + rope) and k_pe: (T, rope), not rotated. latent: (T, R).
    positions: (T,) that rope turns by.
    cache: (pages, page_size, R + rope) before the call.
    projected: (T, R) the latent as kv_b_proj sees it, where that quantises it; None: as it is.
    stored: (T, R + rope) what the cache holds of this call's tokens, where that is no mere rounding
        (codes of 8 bits); None: `written`.
    """

    shape: MlaShape
    paged: Paged
    weight: Float64
    q: Float64
    latent: Float64
    k_pe: Float64
    positions: Int64
    cache: Float64
    projected: Float64 | None = None
    stored: Float64 | None = None

    @cached_property
    def heads_weight(self) -> Float64:
        """(H, nope + v, R)."""
        shape = self.shape
        return self.weight.reshape(shape.heads, shape.nope + shape.v, shape.rank)

    @cached_property
    def written(self) -> Float64:
        """(T, R + rope): the rows that this call adds to the cache, before rounding."""
        turned = rotate(self.k_pe, self.positions, self.shape.rope)
        return np.concatenate([self.latent, turned], axis=1)

    @cached_property
    def rotated_q(self) -> Float64:
        """(T, H, nope + rope)."""
        nope = self.shape.nope
        turned = rotate(self.q[..., nope:], self.positions, self.shape.rope)
        return np.concatenate([self.q[..., :nope], turned], axis=-1)

    def latents(self, request: int, projected: bool = False) -> Float64:
        """(kv_len, R + rope) of a request; with what kv_b_proj makes of this call's tokens."""
        paged = self.paged
        rows = self.cache.reshape(-1, self.cache.shape[-1])[paged.slots(request)].copy()
        added = self.written if self.stored is None else self.stored
        new = added[paged.rows(request)].copy()
        if projected and self.projected is not None:
            new[:, : self.shape.rank] = self.projected[paged.rows(request)]
        rows[len(rows) - len(new) :] = new
        return rows

    def heads(self) -> Iterator[Head]:
        """Every head of every request that has queries."""
        for request in self.paged.requests:
            if self.paged.query_lens[request]:
                yield from self._heads_of(request)

    def _heads_of(self, request: int) -> Iterator[Head]:
        shape, latents = self.shape, self.latents(request, projected=True)
        seen = self.paged.visible(request)
        queries = self.rotated_q[self.paged.rows(request)]
        for h in range(shape.heads):
            up = latents[:, : shape.rank] @ self.heads_weight[h].T
            keys = np.concatenate([up[:, : shape.nope], latents[:, shape.rank :]], axis=1)
            logits = np.where(seen, shape.scale * (queries[:, h] @ keys.T), -np.inf)
            yield Head(request, h, queries[:, h], keys, up[:, shape.nope :], latents, logits)


def by_scale(call: MlaCall) -> Float64:
    """(T, H, v): the output's derivative by the logarithm of the scale, Σ p_j l_j (v_j - o)."""
    output = np.zeros((len(call.q), call.shape.heads, call.shape.v))
    for head in call.heads():
        weighed = head.probabilities * np.where(np.isfinite(head.logits), head.logits, 0.0)
        mean = weighed.sum(axis=1, keepdims=True)
        output[call.paged.rows(head.request), head.head] = (
            weighed @ head.values - mean * head.output
        )
    return output


def attend(call: MlaCall) -> Float64:
    """(T, H, v)."""
    output = np.zeros((len(call.q), call.shape.heads, call.shape.v))
    for head in call.heads():
        output[call.paged.rows(head.request), head.head] = head.output
    return output
