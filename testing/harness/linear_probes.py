"""The probes of a loaded linear layer: what it multiplies, holds, quantises and lets through.

A probe asks questions (some x) and judges the outputs; how the outputs came about, by one layer or
by the ranks that share it, is not its business.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch

from testing.harness.checks import (
    Checked,
    check_codes,
    check_elements,
    check_finite,
    check_noise,
    check_product,
    check_readback,
    check_row_of_zeros,
    check_spoilt_row,
)
from testing.harness.linear import LinearCase, LoadedLinear, Question, build
from testing.harness.records import record
from testing.harness.subject import Subject
from testing.harness.verdict import Finding, Verdict
from testing.oracles.arrays import Float64
from testing.oracles.checkpoints import LinearCheckpoint
from testing.oracles.error_model.noise import Noise
from testing.oracles.matmul import matmul
from testing.oracles.probes import natural, wide_range
from testing.oracles.statistics import Comparison


class Probe(ABC):
    """One thing to ask of a layer."""

    @abstractmethod
    def ask(self, subject: Subject, rng: np.random.Generator) -> list[Question]:
        """The x to give to the layer; none where the format leaves nothing to ask."""

    @abstractmethod
    def judge(self, subject: Subject, x: list[Float64], got: list[Float64]) -> Checked:
        """What the outputs `got` (M, N) for the questions' `x` (M, K) show."""


class LosslessGrid(Probe):
    """The codes of x are beyond doubt, so the output is x̂·wᵀ rounded once.

    x is contiguous once and a window into NaN once: the bits must not differ.
    """

    def ask(self, subject: Subject, rng: np.random.Generator) -> list[Question]:
        """The same x twice."""
        x = subject.lossless(rng)
        return [Question(x), Question(x, padded=True)]

    def judge(self, subject: Subject, x: list[Float64], got: list[Float64]) -> Checked:
        """Elements and statistics, and the bits in the wider tensor."""
        values = subject.encode(x[0]).values
        checked = check_product(subject.compare(values, got[0]), "lossless grid")
        differs = ~((got[0] == got[1]) | (np.isnan(got[0]) & np.isnan(got[1])))
        if differs.any():
            row, column = np.argwhere(differs)[0]
            place = f"row {row}, {subject.checkpoint.layout.column_label(int(column))}"
            message = f"{differs.sum()} outputs change when x lies in a wider tensor, first {place}"
            finding = Finding("padding", "element", place, message, float(differs.sum()))
            return Checked([*checked.findings, finding], checked.statistics)
        return checked


class Readback(Probe):
    """x = v·I reads every weight cell back; a bias is part of the comparison."""

    def ask(self, subject: Subject, rng: np.random.Generator) -> list[Question]:
        """The identity (K, K), times a code."""
        return [Question(subject.one_hot())]

    def judge(self, subject: Subject, x: list[Float64], got: list[Float64]) -> Checked:
        """Cell by cell."""
        return check_readback(subject.compare(subject.encode(x[0]).values, got[0]))


class NaturalData(Probe):
    """The output is x̂·wᵀ, x̂ by the declared rule, rounded once."""

    def ask(self, subject: Subject, rng: np.random.Generator) -> list[Question]:
        """Normal activations."""
        if not subject.quantises:
            return []
        x = natural(rng, subject.case.m, subject.case.k, subject.kind)
        return [Question(subject.settled(x))]

    def judge(self, subject: Subject, x: list[Float64], got: list[Float64]) -> Checked:
        """Elements and statistics; the latter are not kept beside those of the lossless grid."""
        checked = check_product(_beside_quantised(subject, x[0], got[0]), "natural data")
        return Checked(checked.findings, {})


class WideRange(Probe):
    """The same near the ends of the range of x: no floor or flush but the declared one."""

    def ask(self, subject: Subject, rng: np.random.Generator) -> list[Question]:
        """A few rows, of very different size."""
        if not subject.quantises:
            return []
        return [Question(wide_range(rng, subject.case.k, subject.kind))]

    def judge(self, subject: Subject, x: list[Float64], got: list[Float64]) -> Checked:
        """Elements, by row."""
        checked = check_elements(_beside_quantised(subject, x[0], got[0]), "range of x")
        return Checked(checked.findings, {})


def _beside_quantised(subject: Subject, x: Float64, got: Float64) -> Comparison:
    # Where x lies on a tie of the quantiser x̂ may be a step off, and all of its row with it.
    want = subject.encode(x)
    spread = matmul(want.near_tie * want.step, np.abs(subject.checkpoint.weight))
    allowance = Noise(spread, spread / 2, spread)
    return subject.compare(want.values, got, allowance)


class Ties(Probe):
    """Where x lies on a tie and all arithmetic is exact, half to even leaves one answer."""

    def ask(self, subject: Subject, rng: np.random.Generator) -> list[Question]:
        """Codes and a half."""
        x = subject.ties(rng)
        return [] if x is None else [Question(x)]

    def judge(self, subject: Subject, x: list[Float64], got: list[Float64]) -> Checked:
        """As on the lossless grid."""
        comparison = subject.compare(subject.encode(x[0]).values, got[0])
        return Checked(check_product(comparison, "ties").findings, {})


class SpoiltRows(Probe):
    """A NaN, an Inf and a -Inf, each in one row of x, spoil that row only; a row is all zeros."""

    def ask(self, subject: Subject, rng: np.random.Generator) -> list[Question]:
        """x without, then with each of them."""
        case = subject.case
        clean = natural(rng, max(case.m, 3), case.k, subject.kind)
        clean[1] = 0.0
        questions = [Question(clean)]
        for value, row in ((np.nan, len(clean) - 1), (np.inf, 0), (-np.inf, 2)):
            x = clean.copy()
            x[row, int(rng.integers(case.k))] = value
            questions.append(Question(x))
        return questions

    def judge(self, subject: Subject, x: list[Float64], got: list[Float64]) -> Checked:
        """Which rows are NaN, and whether any other changed."""
        clean, bias = got[0], subject.checkpoint.bias
        findings = check_row_of_zeros(clean, 1, bias, subject.checkpoint.layout)
        for asked, output in zip(x[1:], got[1:], strict=True):
            row, column = (int(i) for i in np.argwhere(~np.isfinite(asked))[0])
            value = float(asked[row, column])
            # A product without a quantiser may leave Inf times a weight as it is.
            must_be_nan = bool(np.isnan(value)) or subject.quantises
            findings += check_spoilt_row(clean, output, row, value, must_be_nan)
        return Checked(findings, {})


class ActivationCodes(Probe):
    """With an identity weight the output is x̂: codes by the declared rule, noise as predicted."""

    def ask(self, subject: Subject, rng: np.random.Generator) -> list[Question]:
        """Normal activations, and such that have every code of the format."""
        x = natural(rng, subject.case.m, subject.case.k, subject.kind)
        return [Question(x), Question(subject.lossless(rng))]

    def judge(self, subject: Subject, x: list[Float64], got: list[Float64]) -> Checked:
        """Code by code, and the power of x̂ - x."""
        rule = subject.checkpoint.activations
        findings = []
        for read in got:
            findings += check_finite(read, subject.checkpoint.layout, "activation codes")
        if findings:
            return Checked(findings, {})
        for asked, read in zip(x, got, strict=True):
            findings += check_codes(read, asked, subject.encode(asked))
        want = subject.encode(x[0])
        checked = check_noise(rule.snap(got[0], want), x[0], want, rule)
        return Checked(findings + checked.findings, checked.statistics)


LINEAR_PROBES: tuple[Probe, ...] = (
    LosslessGrid(),
    Readback(),
    NaturalData(),
    WideRange(),
    Ties(),
    SpoiltRows(),
)


class Examination:
    """Probes of one subject with their questions; ask them all, then judge.

    questions: in the order in which `judge` wants the outputs.
    """

    def __init__(
        self, subject: Subject, rng: np.random.Generator, probes: Sequence[Probe] = LINEAR_PROBES
    ) -> None:
        self.subject = subject
        self._asked = [(probe, probe.ask(subject, rng)) for probe in probes]

    @property
    def questions(self) -> list[Question]:
        """Of all probes."""
        return [question for _, questions in self._asked for question in questions]

    def judge(self, outputs: Sequence[Float64]) -> Verdict:
        """outputs: (M, N) of the whole layer, one a question."""
        verdict = Verdict(self.subject.case.subject)
        left = list(outputs)
        for probe, questions in self._asked:
            got, left = left[: len(questions)], left[len(questions) :]
            if questions:
                checked = probe.judge(self.subject, [q.x for q in questions], got)
                verdict.add(checked.findings, checked.statistics)
        return verdict


def examine(
    loaded: LoadedLinear,
    checkpoint: LinearCheckpoint,
    rng: np.random.Generator,
    probes: Sequence[Probe] = LINEAR_PROBES,
    recorded: bool = True,
) -> Verdict:
    """Run the probes on a layer and put their verdicts together.

    recorded: keep the statistics among the test's outputs; not for a layer with a planted fault.
    """
    start = time.perf_counter()
    subject = Subject(loaded.case, checkpoint, accumulator=loaded.accumulator)
    examination = Examination(subject, rng, probes)
    answers = loaded.answer(examination.questions)
    verdict = examination.judge(answers.outputs).add(answers.findings)
    if recorded:
        seconds = time.perf_counter() - start
        record_verdict(verdict, loaded.case, loaded.backends, loaded.device_name, seconds)
    return verdict


def record_verdict(
    verdict: Verdict, case: LinearCase, backends: dict[str, str], device: str, seconds: float
) -> None:
    """Keep one layer's statistics among the test's outputs."""
    record(
        {
            "subject": verdict.subject,
            "format": case.method.format.name,
            "kind": case.kind,
            "shape": case.shape,
            "dtype": case.dtype,
            "backends": backends,
            "device": device,
            "seconds": round(seconds, 4),
            "ok": verdict.ok,
            "statistics": verdict.statistics,
        }
    )


def examine_case(case: LinearCase, seed: int, device: torch.device | str) -> Verdict:
    """Checkpoint, layer and probes of one case, all from one seed."""
    rng = np.random.default_rng(seed)
    checkpoint = case.checkpoint(rng)
    return examine(build(case, checkpoint, device), checkpoint, rng)
