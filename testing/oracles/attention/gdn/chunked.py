"""The gated delta rule a chunk at a time, with errors where a kernel rounds.

Within a chunk of C tokens, with G the running sum of g and D_ij = exp(G_i - G_j) for i ≥ j
(Gated Delta Networks, section 3.3):

    A_ij = β_i·(k_i·k_j)·D_ij, i > j;  T = (I + A)⁻¹
    U = T·(β v),  W = T·(β e^G k),  N = U - W S
    o = (e^G q) S + ((q kᵀ) ∘ D) N,  S ← e^{G_C}·S + Σ_j e^{G_C - G_j}·k_j N_jᵀ

Without errors it is the recurrence in another form. `Rounding` says which of these a kernel keeps
in 16 bits; each gets an error uniform in ±ulp/2, drawn afresh. What stays in float32 gets a normal
error of u√L·E + u·L/8·E for a sum of L products (see `mla.noise`). Norms, g and β, which come of
exponentials and logarithms, are off by 2^-21 of themselves, and g by `Rounding.log` more where a
kernel takes logarithms that are exact to so much of 1 only.
"""

from dataclasses import dataclass, field

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.attention.gdn.gdn import GdnCall, silu
from testing.oracles.rounding import FP32, FloatType, round_to, ulp

_UNIT = FP32.unit_roundoff
_EXP = 2.0**-21
_TF32 = FloatType("tf32", 11, -126, FP32.max_value)


@dataclass(frozen=True)
class Rounding:
    """What a backend rounds to 16 bits, kind; None: everything stays in float32.

    chunk: tokens; 1 is the recurrence.
    log: what softplus may be off by, however small it is.
    tf32: the triangular system is solved in TF32, as flash-linear-attention does.
    """

    kind: FloatType | None = None
    chunk: int = 64
    log: float = 0.0
    tf32: bool = False


@dataclass
class Errors:
    """What a kernel adds where it rounds, drawn at random; `on` False: nothing.

    terms: of each chunk that was run, the root of the sum of squares of what an output adds up.
    """

    rounding: Rounding
    rng: np.random.Generator
    on: bool
    terms: list[Float64] = field(default_factory=list)

    def stored(self, x: Float64) -> Float64:
        """x as a kernel keeps it between two products."""
        kind = self.rounding.kind
        if not self.on:
            return x
        if kind is None:
            return self.single(x)
        return np.asarray(x + ulp(x, kind) * self.rng.uniform(-0.5, 0.5, x.shape))

    def approximate(self, x: Float64) -> Float64:
        """x (replicas, …) as it comes of an exponential or a root in float32."""
        if not self.on:
            return x
        return np.asarray(x * (1 + _EXP * self.rng.uniform(-1, 1, x.shape)))

    def single(self, x: Float64) -> Float64:
        """x rounded to float32 on its way."""
        if not self.on:
            return x
        return np.asarray(x * (1 + _UNIT * self.rng.uniform(-1, 1, x.shape)))

    def for_solve(self, x: Float64) -> Float64:
        """The triangular system's matrix."""
        if not self.on or not self.rounding.tf32:
            return x
        return np.asarray(x + ulp(x, _TF32) * self.rng.uniform(-0.5, 0.5, x.shape))

    def product(self, x: Float64, y: Float64) -> Float64:
        """x @ y with sums in float32."""
        if not self.on:
            return np.asarray(x @ y)
        length = x.shape[-1]
        scale = _UNIT * (np.sqrt(length) + length / 8) * np.sqrt(x**2 @ y**2)
        return np.asarray(x @ y + scale * self.rng.standard_normal(scale.shape))


def near_ties(call: GdnCall, request: int) -> tuple[Float64, Float64]:
    """(length, channels): y rounded, and by how much another rounding of it is off, mostly 0.

    Convolution in float32: 4 products and sums on Σ|w x|; silu has a slope of 1.1 at most, and its
    exponential, with its argument, a relative error of 2⁻²¹ + u·|z|; three more roundings.
    """
    z = call.convolved(request)
    y, rounded = silu(z), round_to(silu(z), call.kind)
    error = 1.1 * 2 * call.shape.width * _UNIT * sizes(call, request)
    error += np.abs(y) * (_EXP + _UNIT * (4 + np.abs(z)))
    low, high = round_to(y - error, call.kind), round_to(y + error, call.kind)
    return rounded, np.where(low == rounded, high - rounded, low - rounded)


def sizes(call: GdnCall, request: int) -> Float64:
    """(length, channels): Σ|w x|, which no partial sum of the convolution exceeds."""
    history, length = call.history(request), call.lengths[request]
    total = np.zeros((length, call.shape.channels))
    for w in range(call.shape.width):
        total += np.abs(call.conv[:, w] * history[w : w + length])
    return total


def chunked(
    call: GdnCall, request: int, rounding: Rounding, rng: np.random.Generator, replicas: int
) -> tuple[Float64, Float64]:
    """(replicas, length, Hv, Dv) outputs and (replicas, Hv, Dk, Dv) states; 0 replicas: exact ones.

    Without errors the leading axis has length 1.
    """
    errors = Errors(rounding, rng, bool(replicas))
    y, other = near_ties(call, request)
    many = np.repeat(y[None], max(replicas, 1), axis=0)
    if replicas:
        many = many + other * rng.integers(0, 2, many.shape)
    return scan(call, request, many, errors)


def terms(call: GdnCall, request: int, rounding: Rounding) -> Float64:
    """(length, Hv, Dv): the root of the sum of squares of what each output adds up."""
    errors = Errors(rounding, np.random.default_rng(0), on=False)
    scan(call, request, near_ties(call, request)[0][None], errors)
    return np.swapaxes(np.concatenate(errors.terms, axis=2)[0], 0, 1)


def scan(call: GdnCall, request: int, y: Float64, errors: Errors) -> tuple[Float64, Float64]:
    """y: (replicas, length, channels) → outputs and states, as `chunked` gives them."""
    q, k, v = call.heads(y)
    ones = np.ones((*q.shape[:-1], 1))
    q, k = (errors.stored(x * errors.approximate(ones)) for x in (q, k))
    # (replicas, Hv, length, …); v is in 16 bits as it comes.
    q, k, v = (np.swapaxes(x, 1, 2) for x in (q, k, v))
    g, beta = _gates(call, request, errors, len(y))
    state = np.repeat(call.start(request)[None], len(y), axis=0)
    outputs = []
    for start in range(0, call.lengths[request], errors.rounding.chunk):
        part = slice(start, start + errors.rounding.chunk)
        tokens = (q[:, :, part], k[:, :, part], v[:, :, part])
        o, state = _chunk(errors, tokens, g[:, :, part], beta[:, :, part], state)
        outputs.append(o)
    return np.swapaxes(np.concatenate(outputs, axis=2), 1, 2), state


def _gates(call: GdnCall, request: int, errors: Errors, replicas: int) -> tuple[Float64, Float64]:
    """g and β, (replicas, Hv, length) each."""
    rows = call.rows(request)
    g, beta = (np.repeat(x[rows].T[None], replicas, axis=0) for x in (call.decay, call.beta))
    g, beta = errors.approximate(g), errors.approximate(beta)
    if errors.on and errors.rounding.log:
        drawn = errors.rng.uniform(-1, 1, g.shape)
        g = g + errors.rounding.log * np.exp(call.a_log)[:, None] * drawn
    return g, beta


def _chunk(
    errors: Errors,
    tokens: tuple[Float64, Float64, Float64],
    g: Float64,
    beta: Float64,
    state: Float64,
) -> tuple[Float64, Float64]:
    q, k, v = tokens
    size = g.shape[2]
    total = np.cumsum(g, axis=2)
    if errors.on:
        total = total * (1 + _UNIT * errors.rng.uniform(-1, 1, total.shape))
    weight = beta[..., None]
    lower = np.tril(np.ones((size, size)))
    decay = np.exp(np.minimum(total[..., :, None] - total[..., None, :], 0)) * lower
    grown = errors.approximate(np.exp(total))[..., None]
    keys = errors.product(errors.stored(weight * k), np.swapaxes(k, 2, 3))
    system = errors.for_solve(keys * decay * np.tril(lower, -1))
    solved = np.linalg.inv(np.eye(size) + system)
    solved = errors.stored(solved)
    u = errors.stored(errors.product(solved, errors.stored(weight * v)))
    w = errors.stored(errors.product(solved, errors.stored(weight * grown * k)))
    held = errors.stored(state)
    new = u - errors.product(w, held)
    kept = errors.stored(new)
    scores = errors.stored(errors.product(q, np.swapaxes(k, 2, 3)) * decay)
    o = errors.product(q, held) * grown + errors.product(scores, kept)
    errors.terms.append(np.sqrt((q**2 @ held**2) * grown**2 + scores**2 @ kept**2))
    last = total[..., -1:]
    added = errors.stored(new * np.exp(last - total)[..., None])
    left = errors.approximate(np.exp(last))[..., None]
    state = errors.single(state * left) + errors.product(np.swapaxes(k, 2, 3), added)
    return o, state
