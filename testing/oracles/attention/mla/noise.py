"""How far a right MLA kernel may be off, and why: the error model.

Every rounding of a value x to a float type is an error uniform in ±ulp(x)/2, independent of others
(Higham and Mary, SIAM J. Sci. Comput. 41, 2019): variance ulp²/12, which is its subgaussian proxy
as well. To first order each reaches the output o = Σ p_j v_j by a linear map, so a term of the
model is that map's sum of squares (`variance`) and of absolute values (`worst`). With δl_j a
logit's error, the derivative of softmax is

    δo = Σ_j p_j δl_j (v_j - o).

Absorbed, q' = W_UKᵀ q_nope and the logit is s·(q'·c_j + q_pe·k_pe_j):

- q' and the rotated q_pe are rounded: one error for all j, δo = s·Σ_r δq_r M_r with
  M_r = Σ_j p_j K_jr (v_j - o), K_j = [c_j | k_pe_j]. M does not shrink with the length, as v
  depends on c.
- W_UK of another dtype than the checkpoint's is rounded: δq'_r = Σ_n q_n δW_nr, through M too.
- Σ p_j c_j (R) is rounded before W_UV: Σ_r δo_r W_UV[·, r]; so is W_UV: Σ_r (Σ p c)_r δW[·, r].

- A backend that splits the keys may round each part's output: u²/3·Σ_i (w_i o_i)², w_i the part's
  share. Parts scatter about the whole by as much as their own keys do: Σ_i (w_i o_i)² is at most
  (Σ p c)² + Σ p² c² on average.

Unabsorbed, k_j and v_j leave kv_b_proj rounded, each by itself:

- δl_j = s·Σ_n q_n δk_jn, independent from j to j; and Σ_j p_j δv_j.

Both:

- the rotated k_pe of this call's tokens is rounded on its way into the cache: δl_j likewise.
- Tensor cores take p in the values' type (Triton, FlashInfer, FlashMLA; torch stays in float32): a
  relative error of at most u and of variance at most u²/3; which of a binade's values p takes
  before it is divided depends on the backend, and over them all the variance is 0.18·u² (see
  `error_model.sums`). Σ p_j ε_j v_j where the denominator adds unrounded p, Σ p_j ε_j (v_j - o)
  where it adds rounded ones: the larger is taken.
- float32: a sum of L products is off by u√L·E as a random walk, E² the sum of their squares, and a
  tensor core cuts each of its L/16 partial sums by up to 2u of it, always towards zero: u·L/8·E.
  exp and its argument: u·(4 + 4|l - max|). All of these are thousands of times smaller.

The bound of an element is 8 deviations of the sum, or the sum over terms of the smaller of 8
deviations and the worst case, if that is less: 2·exp(-32) an element.
"""

from dataclasses import dataclass, field

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.attention.mla.mla import Head, MlaCall
from testing.oracles.attention.rope.rope import rotation_bound
from testing.oracles.error_model.noise import Noise
from testing.oracles.rounding import FP32, FloatType, ulp

TAIL = 8.0
_UNIT = FP32.unit_roundoff


@dataclass(frozen=True)
class MlaArithmetic:
    """What a backend rounds.

    kind: of q, cache, weights in post-load, and output.
    absorbed: which of the two paths.
    probabilities: type of p as it is multiplied by values; FP32 adds nothing.
    weight_exact: the checkpoint's weight is exact in `kind`.
    projected: (T, H·(nope + v)) what kv_b_proj's own product may be off by before it is rounded,
        where it is quantised; None: a float32 sum.
    rounds_parts: the outputs of splits of the keys are rounded to `kind` before they are merged.
    """

    kind: FloatType
    absorbed: bool
    probabilities: FloatType = FP32
    weight_exact: bool = True
    projected: Noise | None = None
    rounds_parts: bool = False


@dataclass
class _Terms:
    """Independent sources of error, added up for one head of one request; entries are (q, v)."""

    variance: Float64
    proxy: Float64 = field(init=False)
    limited: Float64 = field(init=False)

    def __post_init__(self) -> None:
        self.proxy, self.limited = np.zeros_like(self.variance), np.zeros_like(self.variance)

    def add(
        self, variance: Float64, worst: Float64 | None = None, proxy: Float64 | None = None
    ) -> None:
        """proxy: of the tail, where the variance is but an average."""
        proxy = variance if proxy is None else proxy
        self.variance, self.proxy = self.variance + variance, self.proxy + proxy
        limit = TAIL * np.sqrt(proxy)
        self.limited = self.limited + (limit if worst is None else np.minimum(limit, worst))

    def bound(self) -> Float64:
        return np.minimum(TAIL * np.sqrt(self.proxy), self.limited)


def mla_noise(call: MlaCall, arithmetic: MlaArithmetic) -> Noise:
    """(T, H, v) beside `attend(call)`, before the output's own rounding."""
    shape = (len(call.q), call.shape.heads, call.shape.v)
    bound, std = np.zeros(shape), np.zeros(shape)
    for head in call.heads():
        terms = _Terms(np.zeros_like(head.output))
        _queries(call, arithmetic, head, terms)
        _keys(call, arithmetic, head, terms)
        _values(call, arithmetic, head, terms)
        place = call.paged.rows(head.request), head.head
        bound[place], std[place] = terms.bound(), np.sqrt(terms.variance)
    return Noise(bound, std, np.zeros(shape))


def _square(x: Float64, kind: FloatType) -> Float64:
    """Variance of rounding x."""
    return np.asarray(ulp(x, kind) ** 2 / 12)


def _queries(call: MlaCall, arithmetic: MlaArithmetic, head: Head, terms: _Terms) -> None:
    """Errors of a query, which all its keys meet."""
    shape, kind = call.shape, arithmetic.kind
    q_nope, q_pe = head.queries[:, : shape.nope], head.queries[:, shape.nope :]
    w_uk = call.heads_weight[head.head][: shape.nope]
    half, variance = ulp(q_pe, kind) / 2, _square(q_pe, kind)
    turned = rotation_bound(q_pe, shape.rope)
    half, variance = half + turned, variance + turned**2 / 3
    keys = head.latents[:, shape.rank :]
    if arithmetic.absorbed:
        absorbed = q_nope @ w_uk
        rounded = _square(absorbed, kind) + _walk(shape.nope) ** 2 * (q_nope**2 @ w_uk**2)
        limit = ulp(absorbed, kind) / 2 + _worst(shape.nope) * (np.abs(q_nope) @ np.abs(w_uk))
        if not arithmetic.weight_exact:
            rounded += q_nope**2 @ _square(w_uk, kind)
            limit += np.abs(q_nope) @ (ulp(w_uk, kind) / 2)
        variance = np.concatenate([rounded, variance], axis=1)
        half, keys = np.concatenate([limit, half], axis=1), head.latents
    through, worst = np.zeros((2, *head.output.shape))
    for t, (p, o) in enumerate(zip(head.probabilities, head.output, strict=True)):
        m = call.shape.scale * (keys * p[:, None]).T @ (head.values - o)
        through[t], worst[t] = variance[t] @ m**2, half[t] @ np.abs(m)
    terms.add(through, worst)


def _keys(call: MlaCall, arithmetic: MlaArithmetic, head: Head, terms: _Terms) -> None:
    """Errors of logits that are independent from key to key."""
    shape, kind = call.shape, arithmetic.kind
    nope, rank = shape.nope, shape.rank
    square = head.queries**2
    new = call.paged.query_lens[head.request]
    turned = head.keys[-new:, nope:]
    error = np.zeros_like(head.keys)
    error[-new:, nope:] = _square(turned, kind) + rotation_bound(turned, shape.rope) ** 2 / 3
    depth = nope + shape.rope.dim
    size = square @ head.keys.T**2
    if arithmetic.absorbed:
        absorbed = head.queries[:, :nope] @ call.heads_weight[head.head][:nope]
        depth = rank + shape.rope.dim
        size = absorbed**2 @ head.latents[:, :rank].T ** 2
        size += square[:, nope:] @ head.latents[:, rank:].T ** 2
    else:
        product = _projected(call, arithmetic, head)[:, :nope]
        error[:, :nope] = _square(head.keys[:, :nope], kind) + product
    logit = shape.scale**2 * (square @ error.T + _walk(depth) ** 2 * size)
    seen = np.where(np.isfinite(head.logits), head.logits, 0.0)
    largest = np.max(head.logits, axis=1, keepdims=True)
    logit += (_UNIT * (4 + 4 * np.abs(seen - largest))) ** 2
    weight = head.probabilities**2 * logit
    terms.add(_spread(weight, head))


def _values(call: MlaCall, arithmetic: MlaArithmetic, head: Head, terms: _Terms) -> None:
    """Errors of p, of values and of their sum."""
    kind, p, length = arithmetic.kind, head.probabilities, len(head.keys)
    square = p**2 @ head.values**2
    if arithmetic.probabilities is not FP32:
        unit = arithmetic.probabilities.unit_roundoff
        spread = np.maximum(square, _spread(p**2, head))
        worst = unit * (p @ np.abs(head.values) + np.abs(head.output))
        terms.add(0.18 * unit**2 * spread, worst, unit**2 / 3 * spread)
    if not arithmetic.absorbed:
        product = _projected(call, arithmetic, head)[:, call.shape.nope :]
        terms.add(p**2 @ _square(head.values, kind), p @ (ulp(head.values, kind) / 2))
        terms.add(p**2 @ product + _walk(length) ** 2 * square)
        return
    rank = call.shape.rank
    w_uv = call.heads_weight[head.head][call.shape.nope :]
    latent = p @ head.latents[:, :rank]
    summed = _walk(length) ** 2 * (p**2 @ head.latents[:, :rank] ** 2)
    terms.add(
        (_square(latent, kind) + summed) @ w_uv.T**2,
        (ulp(latent, kind) / 2) @ np.abs(w_uv).T + TAIL * np.sqrt(summed @ w_uv.T**2),
    )
    terms.add(_walk(rank) ** 2 * (latent**2 @ w_uv.T**2))
    if arithmetic.rounds_parts:
        parts = latent**2 + p**2 @ head.latents[:, :rank] ** 2
        terms.add(kind.unit_roundoff**2 / 3 * (parts @ w_uv.T**2))
    if not arithmetic.weight_exact:
        terms.add(latent**2 @ _square(w_uv, kind).T, np.abs(latent) @ (ulp(w_uv, kind) / 2).T)


def _projected(call: MlaCall, arithmetic: MlaArithmetic, head: Head) -> Float64:
    """(n, nope + v): variance of kv_b_proj's product."""
    rows = slice(head.head * (n := call.shape.nope + call.shape.v), (head.head + 1) * n)
    if arithmetic.projected is not None:
        return arithmetic.projected.std[call.paged.rows(head.request), rows] ** 2
    weight = call.heads_weight[head.head]
    rank = call.shape.rank
    return np.asarray(_walk(rank) ** 2 * (head.latents[:, :rank] ** 2 @ weight.T**2))


def _spread(weight: Float64, head: Head) -> Float64:
    """(q, v): Σ_j weight_j (v_j - o)²."""
    o, values = head.output, head.values
    total = weight @ values**2 - 2 * o * (weight @ values) + o**2 * weight.sum(axis=1)[:, None]
    return np.maximum(total, 0.0)


def _walk(terms: int) -> float:
    """Deviation of a float32 sum of so many products, in units of the root of their squares."""
    return _UNIT * (float(np.sqrt(terms)) + terms / 8)


def _worst(terms: int) -> float:
    """Worst relative error of the same sum, of the sum of absolute values."""
    return 2 * _UNIT * terms / (1 - 2 * _UNIT * terms)
