"""Every single wrong byte of a checkpoint, bit by bit: does the one-hot readback find it?

A byte is spoilt on its way into the layer, so that it lies in the layer wherever loading, folding,
padding and swizzling put it. The layer is then read back against the unspoilt checkpoint. A flip
counts as visible if a layer that held the spoilt bytes, and were otherwise exact, would lie outside
the error model: -0 for 0 is no fault, nor is the last bit of a float32 scale, which a right
kernel's own roundings cover.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from layers.errors import WeightLoadError
from testing.harness.device import device
from testing.harness.linear import LinearCase, build
from testing.harness.linear_probes import Readback, examine
from testing.harness.subject import Subject
from testing.oracles.arrays import Float64, Tensors
from testing.oracles.checkpoints import LinearCheckpoint
from testing.oracles.matmul import matmul
from testing.oracles.rounding import round_to


@dataclass(frozen=True)
class Flip:
    """One bit of one checkpoint tensor."""

    shard: str
    suffix: str
    byte: int
    bit: int

    def apply(self, tensors: dict[str, Tensors]) -> dict[str, Tensors]:
        """The checkpoint's tensors with that bit flipped; the given ones stay."""
        array = tensors[self.shard][self.suffix].copy()
        flat = np.atleast_1d(array).reshape(-1).view(np.uint8)
        flat[self.byte] ^= 1 << self.bit
        spoilt = flat.view(array.dtype).reshape(array.shape)
        return tensors | {self.shard: tensors[self.shard] | {self.suffix: spoilt}}


@dataclass
class Count:
    """How many flips of one tensor changed nothing, were invisible, and were found or missed."""

    unchanged: int = 0
    invisible: int = 0
    found: int = 0
    missed: list[object] = field(default_factory=list)


def all_flips(tensors: dict[str, Tensors]) -> Iterator[Flip]:
    """Every bit of every byte."""
    for shard, own in tensors.items():
        for suffix, array in own.items():
            for byte in range(array.nbytes):
                yield from (Flip(shard, suffix, byte, bit) for bit in range(8))


def some_flips(rng: np.random.Generator, tensors: dict[str, Tensors], count: int) -> Iterator[Flip]:
    """`count` random bits of each kind of tensor."""
    shards = list(tensors)
    for suffix in tensors[shards[0]]:
        for _ in range(count):
            shard = str(rng.choice(shards))
            byte = int(rng.integers(tensors[shard][suffix].nbytes))
            yield Flip(shard, suffix, byte, int(rng.integers(8)))


def count_flips(
    case: LinearCase, checkpoint: LinearCheckpoint, flips: Iterator[Flip]
) -> dict[str, Count]:
    """Load the layer anew with each flip and read it back."""
    subject = Subject(case, checkpoint)
    counts: dict[str, Count] = {}
    for flip in flips:
        count = counts.setdefault(flip.suffix, Count())
        spoilt = _spoilt(checkpoint, flip)
        ideal = ideal_readback(subject, spoilt)
        if np.array_equal(ideal, ideal_readback(subject, checkpoint)):
            count.unchanged += 1
        elif not Readback().judge(subject, [subject.one_hot()], [ideal]).findings:
            count.invisible += 1
        elif _is_found(case, checkpoint, spoilt):
            count.found += 1
        else:
            count.missed.append(flip)
    return counts


def ideal_readback(subject: Subject, held: LinearCheckpoint) -> Float64:
    """What an exact layer that holds these tensors makes of the subject's one-hot x."""
    with np.errstate(invalid="ignore", over="ignore"):
        values = held.activations.encode(subject.one_hot()).values
        return round_to(matmul(values, held.weight, held.bias), subject.kind)


def _spoilt(checkpoint: LinearCheckpoint, flip: Flip) -> LinearCheckpoint:
    return with_tensors(checkpoint, flip.apply(checkpoint.tensors))


def with_tensors(checkpoint: LinearCheckpoint, tensors: dict[str, Tensors]) -> LinearCheckpoint:
    """A checkpoint of other tensors, and what they mean."""
    with np.errstate(invalid="ignore", over="ignore"):
        weight = np.concatenate([checkpoint.format.decode(own) for own in tensors.values()])
    return replace(checkpoint, tensors=tensors, weight=weight)


def _is_found(case: LinearCase, checkpoint: LinearCheckpoint, spoilt: LinearCheckpoint) -> bool:
    try:
        loaded = build(case, spoilt, device())
    except (WeightLoadError, ValueError):
        # A scale of NaN, say, which the loader refuses.
        return True
    rng = np.random.default_rng(0)
    return not examine(loaded, checkpoint, rng, [Readback()], recorded=False).ok
