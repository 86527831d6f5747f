"""Single wrong bits of a MoE checkpoint: does the readback of the two products find each?

A bit is flipped on its way into the layer, so that it lies in the layer wherever loading, folding,
padding and swizzling put it; the layer is then read back against the unspoilt checkpoint. A flip
counts as visible if every right layer that held the spoilt bytes would lie outside the error model:
its own roundings may take it back by one bound, so an exact one has to lie outside of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from layers.errors import WeightLoadError
from testing.harness.checks import check_readback
from testing.harness.device import device
from testing.harness.moe.examine import examine
from testing.harness.moe.layer import MoeCase, MoeMethod, build
from testing.harness.moe.stage_probes import ReadbackDown, ReadbackGateUp
from testing.harness.moe.subject import MoeSubject
from testing.oracles.arrays import Float64
from testing.oracles.error_model.product import Product
from testing.oracles.matmul import matmul
from testing.oracles.moe.checkpoints import DOWN, GATE, UP, MoeCheckpoint
from testing.oracles.moe.routing import Routing
from testing.oracles.moe.stages import compare_product
from testing.strength.figures import keep_flips
from testing.strength.single_bytes import Count, Flip

FLIPS = 50
"""Flips of each tensor of w13, and of w2."""


@dataclass(frozen=True)
class ExpertFlip:
    """One bit of one tensor of one expert."""

    expert: int
    flip: Flip

    def apply(self, checkpoint: MoeCheckpoint) -> MoeCheckpoint:
        """The checkpoint with that bit flipped, and what it then means."""
        experts = list(checkpoint.experts)
        experts[self.expert] = self.flip.apply(experts[self.expert])
        return replace(checkpoint, experts=tuple(experts))


def random_flips(
    rng: np.random.Generator, checkpoint: MoeCheckpoint, count: int
) -> Iterator[tuple[str, ExpertFlip]]:
    """(tensor, flip): `count` of each tensor of w13, and of w2, in random experts."""
    for name, shards in (("w13", (GATE, UP)), ("w2", (DOWN,))):
        for suffix, array in checkpoint.experts[0][shards[0]].items():
            for _ in range(count):
                expert, byte = rng.integers(len(checkpoint.experts)), rng.integers(array.nbytes)
                flip = Flip(str(rng.choice(shards)), suffix, int(byte), int(rng.integers(8)))
                yield f"{name} {suffix}", ExpertFlip(int(expert), flip)


def require_single_bits(name: str, method: MoeMethod, seed: int = 60) -> None:
    """Load a layer of E 3, H = I = 128 anew with each flip, and read it back.

    Raises:
        AssertionError: a flip was missed that an exact layer would show.
    """
    case = MoeCase(method, 4, 3, 128, 128, Routing(1), backend="torch")
    rng = np.random.default_rng(seed)
    subject = MoeSubject(case, case.checkpoint(rng))
    right = _ideal(subject, subject.checkpoint)
    assert right is not None
    counts: dict[str, Count] = {}
    for tensor, flip in random_flips(rng, subject.checkpoint, FLIPS):
        count = counts.setdefault(tensor, Count())
        held = flip.apply(subject.checkpoint)
        ideal = _ideal(subject, held)
        if ideal is None:
            # No layer can hold it: a scale below zero.
            assert _is_found(subject, held), f"{name} {tensor}: {flip} is taken for a right scale"
            count.found += 1
        elif all(np.array_equal(a, b) for a, b in zip(ideal, right, strict=True)):
            count.unchanged += 1
        elif not any(_shows(subject, i, product) for i, product in enumerate(ideal)):
            count.invisible += 1
        elif _is_found(subject, held):
            count.found += 1
        else:
            count.missed.append(flip)
    keep_flips(f"moe {name}", counts)


def _ideal(subject: MoeSubject, held: MoeCheckpoint) -> list[Float64] | None:
    """What an exact layer of these tensors shows: gate and up by expert, then down by expert.

    None if they mean nothing.
    """
    x, h = _asked(subject)
    with np.errstate(invalid="ignore", over="ignore"):
        try:
            given = held.input_rule.encode(x).values
            hidden = [r.encode(own).values for r, own in zip(held.hidden_rules, h, strict=True)]
        except ValueError:
            return None
        pairs = [*((given, w) for w in held.w13), *zip(hidden, held.w2, strict=True)]
        return [matmul(values, weight, None) for values, weight in pairs]


def _asked(subject: MoeSubject) -> tuple[Float64, list[Float64]]:
    """One-hot x (H, H), and one-hot h (I, I) by expert."""
    own = subject.checkpoint
    h = [rule.one_hot(subject.case.intermediate) for rule in own.hidden_rules]
    return own.input_rule.one_hot(subject.case.hidden), h


def _shows(subject: MoeSubject, index: int, got: Float64) -> bool:
    """Whether the readback calls this output of an exact layer wrong by two bounds."""
    own, (x, h) = subject.checkpoint, _asked(subject)
    experts = len(own.experts)
    if index < experts:
        given, weight, layout = own.input_rule.encode(x).values, own.w13[index], own.layout13
    else:
        e = index - experts
        given, weight, layout = own.hidden_rules[e].encode(h[e]).values, own.w2[e], own.layout2
    comparison = compare_product(own.format, Product(given, weight, None), got, layout)
    noise = replace(comparison.noise, bound=2 * comparison.noise.bound)
    return bool(check_readback(replace(comparison, noise=noise), "").findings)


def _is_found(subject: MoeSubject, held: MoeCheckpoint) -> bool:
    try:
        loaded = build(subject.case, held, device())
    except (WeightLoadError, ValueError):
        # A scale of NaN, say, which the loader refuses.
        return True
    probes = (ReadbackGateUp(), ReadbackDown())
    rng = np.random.default_rng(0)
    return not examine(loaded, subject.checkpoint, rng, (), probes, recorded=False).ok
