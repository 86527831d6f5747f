"""The gated delta rule with its causal convolution, token by token, in float64.

Gated Delta Networks (arXiv:2412.06464, equation 10), as Qwen3-Next and Qwen3.5 have it:

    y_t = silu(Σ_w weight[:, w]·x_{t-W+1+w}),  x the channels [q | k | v], W the width
    q, k ← x / √(Σx² + 1e-6) of each head, q times Dk^-½
    g_t = -exp(A_log)·softplus(a_t + dt_bias),  β_t = sigmoid(b_t)
    S ← exp(g_t)·S;  u_t = β_t·(v_t - Sᵀ k_t);  S ← S + k_t u_tᵀ;  o_t = Sᵀ q_t

Value head h uses key head h // (Hv/Hk). y is rounded to the layer's type, as the layer declares and
as every convolution kernel does; nothing else is rounded here. A request that brings no state
starts from zeros, in the convolution too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.rounding import FloatType, round_to

EPSILON = 1e-6


@dataclass(frozen=True)
class GdnShape:
    """Hk, Hv, Dk, Dv and the convolution's width W."""

    k_heads: int
    v_heads: int
    k_dim: int
    v_dim: int
    width: int = 4

    @property
    def channels(self) -> int:
        """2·Hk·Dk + Hv·Dv."""
        return 2 * self.k_heads * self.k_dim + self.v_heads * self.v_dim


@dataclass(frozen=True)
class GdnCall:
    """What goes into one forward.

    conv: (channels, W). a_log, dt_bias: (Hv,).
    lengths, slots, initial: of each request: tokens, its state's slot, whether it brings a state.
    mixed: (T, channels). a, b: (T, Hv).
    conv_state: (slots, channels, W - 1), oldest first. state: (slots, Hv, Dk, Dv).
    kind: of mixed, and what y is rounded to.
    """

    shape: GdnShape
    conv: Float64
    a_log: Float64
    dt_bias: Float64
    lengths: Sequence[int]
    slots: Sequence[int]
    initial: Sequence[bool]
    mixed: Float64
    a: Float64
    b: Float64
    conv_state: Float64
    state: Float64
    kind: FloatType

    @property
    def requests(self) -> range:
        """Their indices."""
        return range(len(self.lengths))

    def rows(self, request: int) -> slice:
        """Where a request's tokens lie among those of the call."""
        start = sum(self.lengths[:request])
        return slice(start, start + self.lengths[request])

    @cached_property
    def decay(self) -> Float64:
        """(T, Hv): g."""
        return np.asarray(-np.exp(self.a_log) * np.logaddexp(0, self.a + self.dt_bias))

    @cached_property
    def beta(self) -> Float64:
        """(T, Hv)."""
        return np.asarray(1 / (1 + np.exp(-self.b)))

    def history(self, request: int) -> Float64:
        """(W - 1 + length, channels): inputs of the convolution, those of the state first."""
        before = np.zeros((self.shape.width - 1, self.shape.channels))
        if self.initial[request]:
            before = self.conv_state[self.slots[request]].T
        return np.concatenate([before, self.mixed[self.rows(request)]])

    def convolved(self, request: int) -> Float64:
        """(length, channels): before silu."""
        history, width = self.history(request), self.shape.width
        length = self.lengths[request]
        total = np.zeros((length, self.shape.channels))
        for w in range(width):
            total += self.conv[:, w] * history[w : w + length]
        return total

    def start(self, request: int) -> Float64:
        """(Hv, Dk, Dv)."""
        shape = self.shape
        if self.initial[request]:
            return self.state[self.slots[request]].copy()
        return np.zeros((shape.v_heads, shape.k_dim, shape.v_dim))

    def heads(self, y: Float64) -> tuple[Float64, Float64, Float64]:
        """y (…, length, channels) → q, k (…, length, Hv, Dk) of length 1, q scaled, and v."""
        shape, lead = self.shape, y.shape[:-1]
        size = shape.k_heads * shape.k_dim
        q = y[..., :size].reshape(*lead, shape.k_heads, shape.k_dim)
        k = y[..., size : 2 * size].reshape(*lead, shape.k_heads, shape.k_dim)
        v = y[..., 2 * size :].reshape(*lead, shape.v_heads, shape.v_dim)
        group = shape.v_heads // shape.k_heads
        q, k = (np.repeat(_unit(x), group, axis=-2) for x in (q, k))
        return q * shape.k_dim**-0.5, k, v


def _unit(x: Float64) -> Float64:
    return np.asarray(x / np.sqrt((x**2).sum(axis=-1, keepdims=True) + EPSILON))


def silu(x: Float64) -> Float64:
    """x·sigmoid(x)."""
    return np.asarray(x / (1 + np.exp(-x)))


@dataclass(frozen=True)
class GdnAnswer:
    """output: (T, Hv, Dv). state: (B, Hv, Dk, Dv) and conv_state: (B, channels, W - 1) after it."""

    output: Float64
    state: Float64
    conv_state: Float64


def delta_rule(call: GdnCall) -> GdnAnswer:
    """Token by token."""
    shape = call.shape
    output = np.zeros((len(call.mixed), shape.v_heads, shape.v_dim))
    states, windows = [], []
    for request in call.requests:
        q, k, v = call.heads(round_to(silu(call.convolved(request)), call.kind))
        s, first = call.start(request), call.rows(request).start
        for t in range(call.lengths[request]):
            s = np.exp(call.decay[first + t])[:, None, None] * s
            recalled = np.einsum("hkv,hk->hv", s, k[t])
            u = call.beta[first + t][:, None] * (v[t] - recalled)
            s = s + k[t][:, :, None] * u[:, None, :]
            output[first + t] = np.einsum("hkv,hk->hv", s, q[t])
        states.append(s)
        windows.append(call.history(request)[-(shape.width - 1) :].T)
    return GdnAnswer(output, np.stack(states), np.stack(windows))
