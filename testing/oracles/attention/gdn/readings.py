"""What a wrong GDN output may be: the definition with one thing changed, and its name.

A layer whose output is not the definition's is compared with each of these; where one fits, it says
what the layer computes instead.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.attention.gdn.gdn import GdnCall, delta_rule, silu
from testing.oracles.attention.paging import Int64
from testing.oracles.rounding import round_to

Change = Callable[[GdnCall], GdnCall]
Step = Callable[[Float64, Float64, Float64, Float64, Float64, Float64], tuple[Float64, Float64]]
"""(state, q, k, v, decay, β of one token) → new state, output."""


def _fields(call: GdnCall) -> dict[str, object]:
    return {field.name: getattr(call, field.name) for field in fields(GdnCall)}


def _decays(factor: float) -> Change:
    return lambda call: replace(call, a_log=call.a_log + np.log(factor))


def _no_decay(call: GdnCall) -> GdnCall:
    return replace(call, a_log=np.full_like(call.a_log, -np.inf))


def _rate_inverted(call: GdnCall) -> GdnCall:
    return replace(call, a_log=-call.a_log)


def _no_bias(call: GdnCall) -> GdnCall:
    return replace(call, dt_bias=np.zeros_like(call.dt_bias))


def _all_written(call: GdnCall) -> GdnCall:
    return replace(call, b=np.full_like(call.b, np.inf))


def _taps_reversed(call: GdnCall) -> GdnCall:
    return replace(call, conv=call.conv[:, ::-1])


def _one_token_late(call: GdnCall) -> GdnCall:
    late = np.concatenate([call.conv[:, 1:], np.zeros_like(call.conv[:, :1])], axis=1)
    return replace(call, conv=late)


def _conv_state_unused(call: GdnCall) -> GdnCall:
    return replace(call, conv_state=np.zeros_like(call.conv_state))


def _state_unused(call: GdnCall) -> GdnCall:
    return replace(call, state=np.zeros_like(call.state))


def _state_transposed(call: GdnCall) -> GdnCall:
    return replace(call, state=call.state.transpose(0, 1, 3, 2))


@dataclass(frozen=True)
class _Heads(GdnCall):
    """Other heads: which of q and k are left as they are, or which key head they are."""

    variant: str = ""

    def heads(self, y: Float64) -> tuple[Float64, Float64, Float64]:
        q, k, v = super().heads(y)
        shape = self.shape
        size = shape.k_heads * shape.k_dim
        group = shape.v_heads // shape.k_heads
        raw = [
            np.repeat(part.reshape(*y.shape[:-1], shape.k_heads, shape.k_dim), group, axis=-2)
            for part in (y[..., :size], y[..., size : 2 * size])
        ]
        if self.variant == "raw q":
            q = raw[0] * shape.k_dim**-0.5
        elif self.variant == "raw k":
            k = raw[1]
        elif self.variant == "unscaled":
            q = q * shape.k_dim**0.5
        elif self.variant == "modulo":
            order: Int64 = np.arange(shape.v_heads) % shape.k_heads * group
            q, k = q[..., order, :], k[..., order, :]
        return q, k, v


def _heads(variant: str) -> Change:
    return lambda call: _Heads(**_fields(call), variant=variant)  # type: ignore[arg-type]


CHANGES: dict[str, Change] = {
    "the decay is applied twice": _decays(2.0),
    "there is no decay": _no_decay,
    "the rate is exp(-A_log)": _rate_inverted,
    "dt_bias is left out": _no_bias,
    "β is 1": _all_written,
    "the convolution's taps are in the other order": _taps_reversed,
    "the convolution is a token late": _one_token_late,
    "inputs before this call are not convolved": _conv_state_unused,
    "the states that requests bring are not used": _state_unused,
    "the states that requests bring are transposed": _state_transposed,
    "queries are not normalised": _heads("raw q"),
    "keys are not normalised": _heads("raw k"),
    "outputs are not scaled": _heads("unscaled"),
    "value head h uses key head h mod Hk": _heads("modulo"),
}


def _no_recall(
    s: Float64, q: Float64, k: Float64, v: Float64, decay: Float64, beta: Float64
) -> tuple[Float64, Float64]:
    s = decay[:, None, None] * s + k[:, :, None] * (beta[:, None] * v)[:, None, :]
    return s, np.einsum("hkv,hk->hv", s, q)


def _decayed_after(
    s: Float64, q: Float64, k: Float64, v: Float64, decay: Float64, beta: Float64
) -> tuple[Float64, Float64]:
    u = beta[:, None] * (v - np.einsum("hkv,hk->hv", s, k))
    s = decay[:, None, None] * (s + k[:, :, None] * u[:, None, :])
    return s, np.einsum("hkv,hk->hv", s, q)


def _read_before(
    s: Float64, q: Float64, k: Float64, v: Float64, decay: Float64, beta: Float64
) -> tuple[Float64, Float64]:
    s = decay[:, None, None] * s
    o = np.einsum("hkv,hk->hv", s, q)
    u = beta[:, None] * (v - np.einsum("hkv,hk->hv", s, k))
    return s + k[:, :, None] * u[:, None, :], o


STEPS: dict[str, Step] = {
    "values are written without what the state recalls": _no_recall,
    "the decay comes after the update": _decayed_after,
    "outputs are read before the update": _read_before,
}
READINGS = (*CHANGES, *STEPS)


def _outputs(call: GdnCall, step: Step) -> Float64:
    output = np.zeros((len(call.mixed), call.shape.v_heads, call.shape.v_dim))
    for request in call.requests:
        q, k, v = call.heads(round_to(silu(call.convolved(request)), call.kind))
        s, first = call.start(request), call.rows(request).start
        for t in range(call.lengths[request]):
            g, beta = np.exp(call.decay[first + t]), call.beta[first + t]
            s, output[first + t] = step(s, q[t], k[t], v[t], g, beta)
    return output


def readings(call: GdnCall) -> Iterator[tuple[str, Float64]]:
    """Each reading that changes something in this call, and its output (T, Hv, Dv)."""
    right = delta_rule(call).output
    for name in READINGS:
        if name in STEPS:
            output = _outputs(call, STEPS[name])
        elif "transposed" in name and call.shape.k_dim != call.shape.v_dim:
            continue
        else:
            output = delta_rule(CHANGES[name](call)).output
        if not np.allclose(output, right, rtol=1e-9, atol=0, equal_nan=True):
            yield name, output
