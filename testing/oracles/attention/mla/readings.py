"""What a wrong MLA output may be: the definition with one thing changed, and its name.

A layer whose output is not the definition's is compared with each of these; where one fits, it says
what the layer computes instead.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from testing.oracles.arrays import Float64, Mask
from testing.oracles.attention.mla.mla import MlaCall, attend
from testing.oracles.attention.mla.paged import Paged

Change = Callable[[MlaCall], MlaCall]


@dataclass(frozen=True)
class _Seen(Paged):
    """Pages with another mask: (request's own mask) → mask."""

    change: Callable[[Mask], Mask] = np.asarray

    def visible(self, request: int) -> Mask:
        return self.change(super().visible(request))


def _scaled(factor: float) -> Change:
    def change(call: MlaCall) -> MlaCall:
        return replace(call, shape=replace(call.shape, scaling=call.shape.scale * factor))

    return change


def _latent_scale(call: MlaCall) -> MlaCall:
    width = call.shape.rank + call.shape.rope.dim
    return replace(call, shape=replace(call.shape, scaling=width**-0.5))


def _other_style(call: MlaCall) -> MlaCall:
    rope = call.shape.rope
    style = "neox" if rope.style == "gptj" else "gptj"
    return replace(call, shape=replace(call.shape, rope=replace(rope, style=style)))


def _positions_by(step: int) -> Change:
    return lambda call: replace(call, positions=call.positions + step)


def _masked(change: Callable[[Mask], Mask]) -> Change:
    def changed(call: MlaCall) -> MlaCall:
        p = call.paged
        own = (p.query_lens, p.kv_lens, p.page_table, p.page_size, p.trees)
        return replace(call, paged=_Seen(*own, change=change))

    return changed


def _one_ahead(seen: Mask) -> Mask:
    ahead = seen.copy()
    ahead[:, 1:] |= seen[:, :-1]
    return ahead


def _without_own(seen: Mask) -> Mask:
    """The last key that each query sees, but for a query that sees no other."""
    less, queries = seen.copy(), np.arange(len(seen))
    last = seen.shape[1] - 1 - np.argmax(seen[:, ::-1], axis=1)
    less[queries, last] = seen.sum(axis=1) == 1
    return less


def _causal(seen: Mask) -> Mask:
    queries, keys = seen.shape
    return np.asarray(np.arange(keys) <= keys - queries + np.arange(queries)[:, None])


def _without_last(seen: Mask) -> Mask:
    less = seen.copy()
    less[:, -1] &= seen.sum(axis=1) == 1
    return less


def _rolled(keys: bool) -> Change:
    """Head h has W_UK, or W_UV, of head h + 1."""

    def change(call: MlaCall) -> MlaCall:
        weight, nope = call.heads_weight.copy(), call.shape.nope
        part = slice(None, nope) if keys else slice(nope, None)
        weight[:, part] = np.roll(weight[:, part], -1, axis=0)
        return replace(call, weight=weight.reshape(call.weight.shape))

    return change


def _swapped(call: MlaCall) -> MlaCall:
    weight, nope = call.heads_weight, call.shape.nope
    swapped = np.concatenate([weight[:, nope:], weight[:, :nope]], axis=1)
    return replace(call, weight=swapped.reshape(call.weight.shape))


def _keys_by_matrix(call: MlaCall) -> MlaCall:
    """Rows of all heads' keys first, then of all values."""
    shape = call.shape
    keys, values = np.split(call.weight, [shape.heads * shape.nope])
    weight = np.concatenate(
        [keys.reshape(shape.heads, -1, shape.rank), values.reshape(shape.heads, -1, shape.rank)],
        axis=1,
    )
    return replace(call, weight=weight.reshape(call.weight.shape))


def _transposed(call: MlaCall) -> MlaCall:
    weight, nope = call.heads_weight.copy(), call.shape.nope
    weight[:, :nope] = weight[:, :nope].transpose(0, 2, 1)
    return replace(call, weight=weight.reshape(call.weight.shape))


@dataclass(frozen=True)
class _Swapped(MlaCall):
    """A request's positions lie in its first two pages the other way round, when they are read."""

    def latents(self, request: int, projected: bool = False) -> Float64:
        rows, size = super().latents(request, projected), self.paged.page_size
        if len(rows) >= 2 * size:
            rows[: 2 * size] = np.roll(rows[: 2 * size], size, axis=0)
        return rows


def _pages_swapped(call: MlaCall) -> MlaCall:
    return _Swapped(**{field.name: getattr(call, field.name) for field in fields(call)})


def _no_rope_part(call: MlaCall) -> MlaCall:
    q = call.q.copy()
    q[..., call.shape.nope :] = 0
    return replace(call, q=q)


def _front_turned(call: MlaCall) -> MlaCall:
    rope = call.shape.rope.dim
    return replace(call, q=np.roll(call.q, -rope, axis=-1))


def _unturned(queries: bool) -> Change:
    """Positions of queries, or of this call's keys, all 0."""

    def change(call: MlaCall) -> MlaCall:
        still = replace(call, positions=np.zeros_like(call.positions))
        fixed = replace(call)
        if queries:
            fixed.__dict__["rotated_q"] = still.rotated_q
        else:
            fixed.__dict__["written"] = still.written
        return fixed

    return change


def _square(call: MlaCall) -> bool:
    return call.shape.nope == call.shape.v


READINGS: dict[str, tuple[Change, Callable[[MlaCall], bool]]] = {
    "the scale of the logits is 1 % too large": (_scaled(1.01), lambda call: True),
    "the scale of the logits is 1 % too small": (_scaled(0.99), lambda call: True),
    "the logits are not scaled": (lambda c: _scaled(1 / c.shape.scale)(c), lambda call: True),
    "the scale is that of latents, (R + rope)^-1/2": (_latent_scale, lambda call: True),
    "the pairs of the rotary part are those of the other style": (_other_style, lambda call: True),
    "positions are one too large": (_positions_by(1), lambda call: True),
    "the rotary part of queries is not turned": (_unturned(True), lambda call: True),
    "the rotary part of this call's keys is not turned": (_unturned(False), lambda call: True),
    "the rotary part of queries is taken from the front": (_front_turned, lambda call: True),
    "the rotary part is left out": (_no_rope_part, lambda call: True),
    "a query sees one key ahead of itself": (_masked(_one_ahead), lambda call: True),
    "a query does not see its own key": (_masked(_without_own), lambda call: True),
    "a request's last key is not seen": (_masked(_without_last), lambda call: True),
    "a query sees all keys": (_masked(np.ones_like), lambda call: True),
    "drafts see each other as a chain": (
        _masked(_causal),
        lambda call: call.paged.trees is not None,
    ),
    "head h reads W_UV of head h + 1": (_rolled(False), lambda call: True),
    "head h reads W_UK of head h + 1": (_rolled(True), lambda call: True),
    "W_UK and W_UV are swapped": (_swapped, _square),
    "kv_b_proj holds all keys, then all values": (
        _keys_by_matrix,
        lambda call: True,
    ),
    "W_UK is transposed": (_transposed, lambda call: call.shape.nope == call.shape.rank),
    "a request's first two pages are swapped": (_pages_swapped, lambda call: True),
}
"""{what the layer computes: (the change of the definition, whether a call can have it)}."""


def readings(call: MlaCall) -> Iterator[tuple[str, MlaCall]]:
    """Each reading that this call can have and that changes something: what is computed by it."""
    right = attend(call)
    for name, (change, applies) in READINGS.items():
        if applies(call):
            changed = change(call)
            if not np.allclose(attend(changed), right, rtol=1e-9, atol=0, equal_nan=True):
                yield name, changed
