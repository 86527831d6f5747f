"""The probes of a loaded MoE layer that look at its output alone, whatever runs inside.

A probe asks questions (some x and router logits) and judges the outputs; how these came about, by
one layer or by the ranks that share it, is not its business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from testing.harness.checks import (
    Checked,
    check_elements,
    check_finite,
    check_product,
    check_spoilt_row,
)
from testing.harness.moe.layer import Question
from testing.harness.moe.subject import MoeSubject
from testing.harness.verdict import Finding, Verdict
from testing.oracles.arrays import Float64
from testing.oracles.moe.probes import logits_to, logits_without, router_logits
from testing.oracles.moe.stages import ExpertLayout


class MoeProbe(ABC):
    """One thing to ask of a layer."""

    @abstractmethod
    def ask(self, subject: MoeSubject, rng: np.random.Generator) -> list[Question]:
        """The questions to give to the layer."""

    @abstractmethod
    def judge(
        self, subject: MoeSubject, asked: Sequence[Question], got: Sequence[Float64]
    ) -> Checked:
        """What the outputs `got` (T, H) show."""


class EndToEnd(MoeProbe):
    """The output is the checkpoint's, quantised and rounded where the layer declares to.

    Once as it comes and once as a window into NaN: the bits must not differ.
    """

    name = "end to end"

    def ask(self, subject: MoeSubject, rng: np.random.Generator) -> list[Question]:
        """The same x and logits twice."""
        x = subject.natural(rng, subject.case.tokens)
        logits = self.logits(subject, rng)
        return [Question(x, logits), Question(x, logits, padded=True)]

    def logits(self, subject: MoeSubject, rng: np.random.Generator) -> Float64:
        """All experts, in an order of each token's own."""
        return router_logits(rng, subject.case.tokens, subject.case.experts)

    def judge(
        self, subject: MoeSubject, asked: Sequence[Question], got: Sequence[Float64]
    ) -> Checked:
        """Elements and statistics."""
        comparison = subject.compare_output(asked[0].x, asked[0].logits, got[0])
        checked = check_product(comparison, self.name)
        differs = ~((got[0] == got[1]) | (np.isnan(got[0]) & np.isnan(got[1])))
        if differs.any():
            token = int(np.argwhere(differs)[0][0])
            message = f"{differs.sum()} outputs change when x lies in a wider tensor"
            finding = Finding("padding", "element", f"token {token}", message, float(differs.sum()))
            return Checked([*checked.findings, finding], checked.statistics)
        return checked


class OneExpert(EndToEnd):
    """All tokens go to the same experts, the last ones first."""

    name = "all tokens to one expert"

    def logits(self, subject: MoeSubject, rng: np.random.Generator) -> Float64:
        """Of the last experts."""
        last = subject.case.experts - 1
        wanted = [last - i for i in range(subject.case.routing.top_k)]
        return logits_to(subject.case.tokens, subject.case.experts, wanted)


class UnchosenExpert(EndToEnd):
    """Nobody goes to the first expert."""

    name = "an expert that nobody chose"

    def logits(self, subject: MoeSubject, rng: np.random.Generator) -> Float64:
        """Of the others."""
        return logits_without(rng, subject.case.tokens, subject.case.experts, [0])


class SpoiltTokens(MoeProbe):
    """A NaN or an Inf in x, or a NaN in the logits, of one token spoils that token only."""

    def ask(self, subject: MoeSubject, rng: np.random.Generator) -> list[Question]:
        """x and logits without, then with each of them."""
        case, tokens = subject.case, max(subject.case.tokens, 3)
        x, logits = subject.natural(rng, tokens), router_logits(rng, tokens, case.experts)
        questions = [Question(x, logits)]
        for value, token in ((np.nan, tokens - 1), (np.inf, 0), (-np.inf, 2)):
            spoilt = x.copy()
            spoilt[token, int(rng.integers(case.hidden))] = value
            questions.append(Question(spoilt, logits))
        for token, experts in ((1, slice(None)), (0, slice(case.experts // 2, None))):
            spoilt = logits.copy()
            spoilt[token, experts] = np.nan
            questions.append(Question(x, spoilt))
        return questions

    def judge(
        self, subject: MoeSubject, asked: Sequence[Question], got: Sequence[Float64]
    ) -> Checked:
        """Which tokens are spoilt, and whether any other changed."""
        layout = ExpertLayout.of(subject.case.experts, subject.case.hidden)
        findings = check_finite(got[0], layout, "containment")
        for question, output in zip(asked[1:], got[1:], strict=True):
            if np.isfinite(question.x).all():
                findings += self._of_logits(subject, asked[0], question, got[0], output)
            else:
                token, value = _spoilt(question.x)
                must_be_nan = np.isnan(value) or subject.input_rule.quantises
                findings += check_spoilt_row(got[0], output, token, value, bool(must_be_nan))
        return Checked(findings, {})

    def _of_logits(
        self,
        subject: MoeSubject,
        clean: Question,
        question: Question,
        clean_output: Float64,
        output: Float64,
    ) -> list[Finding]:
        """The token is NaN; the others are right, if not to the bit.

        The token goes to other experts than before, and the matmul of an expert with more rows may
        add up in another order.
        """
        token, value = _spoilt(question.logits)
        findings = []
        kept = ~np.isnan(output[token])
        if kept.any():
            message = (
                f"the router's logits have {value} in row {token}, yet {kept.sum()} of {kept.size} "
                "outputs there are not NaN"
            )
            finding = Finding("containment", "spoilt", f"row {token}", message, float(kept.sum()))
            findings.append(finding)
        mended = output.copy()
        mended[token] = clean_output[token]
        comparison = subject.compare_output(clean.x, clean.logits, mended)
        return findings + check_elements(comparison, "containment").findings


def _spoilt(values: Float64) -> tuple[int, float]:
    """The first row with a value that is not finite, and that value."""
    row, column = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
    return row, float(values[row, column])


OUTPUT_PROBES: tuple[MoeProbe, ...] = (EndToEnd(), OneExpert(), UnchosenExpert(), SpoiltTokens())


class MoeExamination:
    """Probes of one subject with their questions; ask them all, then judge.

    questions: in the order in which `judge` wants the outputs.
    """

    def __init__(
        self,
        subject: MoeSubject,
        rng: np.random.Generator,
        probes: Sequence[MoeProbe] = OUTPUT_PROBES,
    ) -> None:
        self.subject = subject
        self._asked = [(probe, probe.ask(subject, rng)) for probe in probes]

    @property
    def questions(self) -> list[Question]:
        """Of all probes."""
        return [question for _, questions in self._asked for question in questions]

    def judge(self, outputs: Sequence[Float64]) -> Verdict:
        """outputs: (T, H) of the whole layer, one a question."""
        verdict = Verdict(self.subject.case.subject)
        left = list(outputs)
        for probe, questions in self._asked:
            got, left = left[: len(questions)], left[len(questions) :]
            checked = probe.judge(self.subject, questions, got)
            # The figures of the first probe stand for all.
            verdict.add(checked.findings, {**checked.statistics, **verdict.statistics})
        return verdict
