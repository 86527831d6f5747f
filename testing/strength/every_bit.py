"""Every bit of every checkpoint tensor, many at a time: does the one-hot readback find each?

A readback's output shows one weight cell, and a cell has one code and one scale. So one bit of all
items of a tensor is flipped at once, on their way into the layer, and each cell still shows what
that one flip does to it: a layer for each bit reads what a layer for each flip would. A flip is
found if a cell that has the item is wrong. Scales of a whole shard, of which there are few, are
flipped singly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layers.errors import WeightLoadError
from testing.harness.device import device
from testing.harness.linear import LinearCase, build
from testing.harness.subject import Subject
from testing.oracles.arrays import Float64, Mask
from testing.oracles.checkpoints import LinearCheckpoint
from testing.strength.single_bytes import all_flips, count_flips, ideal_readback, with_tensors

_TAME = 60
"""log2 of what a scale may become: cells that overflow would reach others, by 0·Inf."""


def require_every_bit(case: LinearCase, checkpoint: LinearCheckpoint) -> dict[str, int]:
    """Read the layer back with each bit of each tensor flipped; {suffix: flips found}.

    Raises:
        AssertionError: a flip that any right layer would show was missed.
    """
    found: dict[str, int] = {}
    for suffix, array in next(iter(checkpoint.tensors.values())).items():
        found[suffix] = 0
        for bit in range(8 * array.itemsize) if array.ndim else ():
            shown, wrong = _read(case, checkpoint, _flipped(checkpoint, suffix, bit))
            items = _items(checkpoint, suffix)
            missed = np.setdiff1d(items[shown], items[wrong])
            assert not len(missed), f"bit {bit} of {suffix}: missed in items {missed[:8]}"
            found[suffix] += len(np.unique(items[shown]))
    counts = count_flips(case, checkpoint, _of_shards(checkpoint))
    for suffix, count in counts.items():
        assert not count.missed, f"wrong bits of {suffix} that were missed: {count.missed}"
        found[suffix] = count.found
    return found


def _of_shards(checkpoint: LinearCheckpoint) -> Iterator[Any]:
    scalars = {s: {n: a for n, a in t.items() if not a.ndim} for s, t in checkpoint.tensors.items()}
    return all_flips(scalars)


def _flipped(checkpoint: LinearCheckpoint, suffix: str, bit: int) -> LinearCheckpoint:
    """That bit of every item, in every shard, but where the item becomes NaN or immense."""
    tensors = {
        shard: own | {suffix: _flip(own[suffix], bit, suffix == "weight")}
        for shard, own in checkpoint.tensors.items()
    }
    return with_tensors(checkpoint, tensors)


def _flip(array: NDArray[Any], bit: int, is_weight: bool) -> NDArray[Any]:
    items = np.ascontiguousarray(array).view(f"u{array.itemsize}")
    flipped = (items ^ items.dtype.type(1 << bit)).view(array.dtype)
    if array.dtype == np.uint8:
        # Packed codes are always tame; the others are exponents.
        tame = np.full(array.shape, True) if is_weight else flipped < 127 + _TAME
    else:
        with np.errstate(invalid="ignore"):
            tame = np.abs(flipped.astype(np.float64)) < 2.0**_TAME
    return np.where(tame, flipped.view(items.dtype), items).view(array.dtype)


def _items(checkpoint: LinearCheckpoint, suffix: str) -> NDArray[np.int64]:
    """(K, N) number of the item of that tensor that each cell has, over all shards."""
    numbers, first, k = [], 0, checkpoint.layout.k
    for shard, own in zip(checkpoint.layout.shards, checkpoint.tensors.values(), strict=True):
        rows, columns = np.arange(shard.stop - shard.start), np.arange(k)
        down, across = own[suffix].shape
        # A tile of 128 rows and columns, or a row's share of the columns.
        row = rows if down == len(rows) else rows // 128
        column: NDArray[np.int64] = columns // (128 if across == -(-k // 128) else k // across)
        numbers.append(first + row[None, :] * across + column[:, None])
        first += down * across
    return np.concatenate(numbers, axis=1)


def _read(
    case: LinearCase, checkpoint: LinearCheckpoint, spoilt: LinearCheckpoint
) -> tuple[Mask, Mask]:
    """(K, N) cells that any right layer would show to be wrong, and those that this one shows."""
    subject = Subject(case, checkpoint)
    x = subject.one_hot()
    shown = _wrong(subject, x, ideal_readback(subject, spoilt), room=2)
    try:
        loaded = build(case, spoilt, device())
    except (WeightLoadError, ValueError):
        # The loader refuses a scale that is negative.
        return shown, shown
    return shown, _wrong(subject, x, loaded(x))


def _wrong(subject: Subject, x: Float64, got: Float64, room: float = 1) -> Mask:
    comparison = subject.compare(subject.encode(x).values, got)
    noise = replace(comparison.noise, bound=room * comparison.noise.bound)
    return replace(comparison, noise=noise).outside()
