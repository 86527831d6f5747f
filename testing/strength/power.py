"""The smallest bias that a layer test finds, beside what the criteria of other tests find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from testing.harness.device import device
from testing.harness.linear import LinearCase, LoadedLinear, Method, Question, build
from testing.harness.linear_probes import Examination, LosslessGrid, NaturalData, Probe
from testing.harness.subject import Subject
from testing.harness.verdict import Verdict
from testing.oracles.arrays import Float64
from testing.oracles.error_model.noise import Noise
from testing.oracles.formats import Activations
from testing.oracles.matmul import matmul
from testing.oracles.statistics import Comparison
from testing.strength.bias import FAMILIES, Lever, plant_bias, random_place
from testing.strength.peers import Criterion, allclose, calc_diff, cosine

SEEDS = 20
MISSES = 1
GOALS = {"gain": 0.0002, "row": 0.001, "column": 0.005, "tile": 0.0005}
"""Relative bias that has to be found in all but MISSES of SEEDS layers, by family."""

_STEPS = 4
"""Gains tried to an octave."""

_SCOUTS = 5
"""Trials that say where the search starts."""


class _Remembering(Subject):
    """A subject that works out once what an x asks for: only outputs change between questions."""

    @cached_property
    def _known(self) -> dict[int, Any]:
        return {}

    def encode(self, x: Float64) -> Activations:
        """As the subject does; each x is an object that its examination keeps."""
        if id(x) not in self._known:
            self._known[id(x)] = super().encode(x)
        return self._known[id(x)]  # type: ignore[no-any-return]

    def compare(self, x: Float64, got: Float64, allowance: Noise | None = None) -> Comparison:
        """As the subject does; each x is what `encode` gave."""
        if id(x) not in self._known:
            self._known[id(x)] = super().compare(x, got, allowance)
        known: Comparison = self._known[id(x)]
        return replace(known, got=got)


@dataclass(frozen=True)
class Trial:
    """A right layer of M 64, N 512, K 1024 with a lever on a part of its output.

    x: (M, K) normal data, as other tests take it; reference: (M, N) its product with the weight.
    """

    loaded: LoadedLinear
    lever: Lever
    seed: int
    subject: Subject
    x: Float64
    reference: Float64
    examinations: dict[str, Examination] = field(default_factory=dict)
    verdicts: dict[tuple[str, float], Verdict] = field(default_factory=dict)

    def verdict(self, gain: float, probe: Probe) -> Verdict:
        """What a probe of the layer tests says when the place is off by `gain`."""
        name = type(probe).__name__
        if name not in self.examinations:
            rng = np.random.default_rng(self.seed + 1)
            self.examinations[name] = Examination(self.subject, rng, [probe])
        if (name, gain) not in self.verdicts:
            examination = self.examinations[name]
            self.lever.gain = gain
            outputs = self.loaded.answer(examination.questions).outputs
            self.verdicts[name, gain] = examination.judge(outputs)
        return self.verdicts[name, gain]

    def output(self, gain: float) -> Float64:
        """The output for the natural data when the place is off by `gain`."""
        self.lever.gain = gain
        return self.loaded.answer([Question(self.x)]).outputs[0]


T = TypeVar("T")
Finds = Callable[[Trial, float], bool]
"""(trial, gain) → the criterion finds something."""


def trial(method: Method, family: str, seed: int, backend: str | None = None) -> Trial:
    """The layer of one seed, with a lever on a random place of the family."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    case = LinearCase(method, "column", 64, {"": 512}, 1024, backend=backend)
    checkpoint = case.checkpoint(rng)
    loaded = build(case, checkpoint, device())
    lever = plant_bias(loaded, random_place(rng, family, checkpoint.layout, case.m))
    x = rng.standard_normal((case.m, case.k)).astype(ml_dtypes.bfloat16).astype(np.float64)
    subject = _Remembering(case, checkpoint, accumulator=loaded.accumulator)
    return Trial(loaded, lever, seed, subject, x, matmul(x, checkpoint.weight))


def by_probe(probe: Probe) -> Finds:
    """A probe reports anything at all."""
    return lambda trial, gain: not trial.verdict(gain, probe).ok


def by_name(probe: Probe) -> Finds:
    """A probe names the place that is off."""

    def finds(trial: Trial, gain: float) -> bool:
        place = trial.lever.place
        findings = trial.verdict(gain, probe).findings
        return (place.family, place.label) in {(f.family, f.place) for f in findings}

    return finds


def by_peer(criterion: Criterion) -> Finds:
    """Another project's criterion rejects the output."""
    return lambda trial, gain: not criterion(trial.output(gain), trial.reference)


def criteria(family: str, four_bits: bool) -> dict[str, Finds]:
    """Every criterion of the table, ours first; `four_bits`: an operand is fp4.

    The probe of natural data shows beside the peers what the same data can tell; it is asked for
    the whole output only, to save time.
    """
    natural_data = {"natural data": by_probe(NaturalData())} if family == "gain" else {}
    return {
        "lossless grid": by_probe(LosslessGrid()),
        "named": by_name(LosslessGrid()),
        **natural_data,
        "allclose": by_peer(allclose),
        "cosine": by_peer(cosine),
        "calc_diff": by_peer(calc_diff(0.02 if four_bits else 0.001)),
    }


def smallest(trials: Sequence[T], finds: Callable[[T, float], bool]) -> float | None:
    """The smallest gain, in steps of 2^(1/4), found in all but MISSES of the trials.

    A search by halves over the first few trials says where to start; from there the gain is raised
    until it is found in as many trials as it has to be.

    None if doubling the place is not found; 0.0 if the right layer is rejected already.
    """
    gains: list[float] = [2.0 ** (i / _STEPS) for i in range(-20 * _STEPS, 1)]
    if not _found(trials, finds, gains[-1]):
        return None
    if _found(trials, finds, 0.0):
        return 0.0
    low, high = -1, len(gains) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if all(finds(trial, gains[middle]) for trial in trials[:_SCOUTS]):
            high = middle
        else:
            low = middle
    return next(gain for gain in gains[high:] if _found(trials, finds, gain))


def _found(trials: Sequence[T], finds: Callable[[T, float], bool], gain: float) -> bool:
    missed = 0
    for one in trials:
        missed += not finds(one, gain)
        if missed > MISSES:
            return False
    return True
