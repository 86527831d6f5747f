"""The probes of a layer that works in stages: what each product multiplies and holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from testing.harness.checks import Checked, check_readback
from testing.harness.moe.checks import (
    check_combined,
    check_down,
    check_gate_up,
    check_hidden,
    check_routing,
    recorded_choice,
)
from testing.harness.moe.layer import LoadedMoe
from testing.harness.moe.subject import MoeSubject
from testing.harness.moe.taps import Tape, taped
from testing.harness.verdict import Finding
from testing.oracles.arrays import Float64
from testing.oracles.error_model.product import Product
from testing.oracles.moe.probes import logits_to, router_logits
from testing.oracles.moe.routing import Int64
from testing.oracles.moe.stages import Pairs, compare_product


class StageProbe(ABC):
    """One thing to see inside a layer."""

    @abstractmethod
    def examine(self, loaded: LoadedMoe, subject: MoeSubject, rng: np.random.Generator) -> Checked:
        """What the stages show."""


class Stages(StageProbe):
    """Each stage beside its own input, for x that quantising leaves as it is.

    Watching must change nothing: the output is that of a forward without taps, bit for bit.
    """

    def examine(self, loaded: LoadedMoe, subject: MoeSubject, rng: np.random.Generator) -> Checked:
        """Router, first product, activation, second product, sum."""
        case = subject.case
        x = subject.input_rule.lossless(rng, case.tokens, case.hidden)
        logits = router_logits(rng, case.tokens, case.experts)
        plain = loaded(x, logits)
        with taped(loaded) as tape:
            got = loaded(x, logits)
        findings = check_routing(subject, logits, tape)
        if findings:
            return Checked(findings, {})
        pairs = Pairs.of(recorded_choice(subject, logits, tape))
        stages = {
            "gate_up": check_gate_up(subject, x, pairs, tape, "gate_up"),
            "hidden": check_hidden(subject, tape, "activation"),
            "down": check_down(subject, pairs, tape, "down", inexact=True),
            "combined": check_combined(subject, pairs, tape, got, "combine"),
        }
        if not np.array_equal(plain, got, equal_nan=True):
            message = "the output changes when the layer is watched"
            findings.append(Finding("taps", "element", "output", message))
        return _together(stages, findings)


class HiddenGrid(StageProbe):
    """h that quantising leaves as it is, put in the activation's place: ĥ·w2ᵀ to its last bits."""

    name = "down on the lossless grid"
    exact_ties = False

    def examine(self, loaded: LoadedMoe, subject: MoeSubject, rng: np.random.Generator) -> Checked:
        """The second product, and the sum."""
        case = subject.case
        x = subject.natural(rng, case.tokens)
        logits = router_logits(rng, case.tokens, case.experts)
        pairs = Pairs.of(subject.choice(logits))
        h = self.hidden(subject, rng, pairs)
        if h is None:
            return Checked([], {})
        with taped(loaded, h) as tape:
            got = loaded(x, logits)
        findings = check_routing(subject, logits, tape)
        if findings:
            return Checked(findings, {})
        pairs = Pairs.of(recorded_choice(subject, logits, tape))
        stages = {
            "down": check_down(subject, pairs, tape, self.name, exact_ties=self.exact_ties),
            "combined": check_combined(subject, pairs, tape, got, f"{self.name}, combine"),
        }
        return _together(stages, findings)

    def hidden(self, subject: MoeSubject, rng: np.random.Generator, pairs: Pairs) -> Float64 | None:
        """(P, I)."""
        return subject.hidden_lossless(rng, pairs.experts)


class HiddenTies(HiddenGrid):
    """h on ties of its quantiser where all arithmetic is exact: half to even leaves one answer."""

    name = "down on ties of h"
    exact_ties = True

    def hidden(self, subject: MoeSubject, rng: np.random.Generator, pairs: Pairs) -> Float64 | None:
        """(P, I), if the format has such values."""
        return subject.hidden_ties(rng, pairs.experts)


class ReadbackGateUp(StageProbe):
    """x = I reads every cell of gate and up of every expert back."""

    def examine(self, loaded: LoadedMoe, subject: MoeSubject, rng: np.random.Generator) -> Checked:
        """Cell by cell."""
        rule, checkpoint = subject.input_rule, subject.checkpoint
        x = rule.one_hot(subject.case.hidden)
        encoded = rule.encode(x).values
        read: dict[int, Checked] = {}
        for logits in _to_every_expert(subject, len(x)):
            with taped(loaded) as tape:
                loaded(x, logits)
            for expert, rows in _new_rows(tape, read):
                weight, bias = checkpoint.w13[expert], checkpoint.bias13(expert)
                product = Product(encoded, weight, bias)
                comparison = compare_product(
                    checkpoint.format, product, tape.gate_up[rows], checkpoint.layout13
                )
                read[expert] = check_readback(comparison, "readback of gate and up")
        return _all_experts(subject, read)


class ReadbackDown(StageProbe):
    """h = I, put in the activation's place, reads every cell of every expert's w2 back."""

    def examine(self, loaded: LoadedMoe, subject: MoeSubject, rng: np.random.Generator) -> Checked:
        """Cell by cell."""
        case, checkpoint = subject.case, subject.checkpoint
        x = subject.input_rule.lossless(rng, case.intermediate, case.hidden)
        read: dict[int, Checked] = {}
        for logits in _to_every_expert(subject, len(x)):
            experts = Pairs.of(subject.choice(logits)).experts
            with taped(loaded, _one_hot_pairs(subject, experts)) as tape:
                loaded(x, logits)
            for expert, rows in _new_rows(tape, read):
                encoded = checkpoint.hidden_rules[expert].encode(tape.hidden[rows]).values
                weight, bias = checkpoint.w2[expert], checkpoint.bias2(expert)
                comparison = compare_product(
                    checkpoint.format,
                    Product(encoded, weight, bias),
                    tape.down[rows],
                    checkpoint.layout2,
                )
                read[expert] = check_readback(comparison, "readback of down")
        return _all_experts(subject, read)


STAGE_PROBES: tuple[StageProbe, ...] = (
    Stages(),
    HiddenGrid(),
    HiddenTies(),
    ReadbackGateUp(),
    ReadbackDown(),
)


def _to_every_expert(subject: MoeSubject, tokens: int) -> list[Float64]:
    """Logits that lead all tokens to some experts, in turn until every expert has been chosen."""
    count, top_k = subject.case.experts, subject.case.routing.top_k
    return [
        logits_to(tokens, count, [(start + i) % count for i in range(top_k)], apart=8.0)
        for start in range(0, count, top_k)
    ]


def _one_hot_pairs(subject: MoeSubject, experts: Int64) -> Float64:
    """(T·K, I): each pair of token t has the one-hot row t that its expert's rule gives."""
    size = subject.case.intermediate
    tokens: Int64 = np.arange(len(experts)) // (len(experts) // size)
    h = np.zeros((len(experts), size))
    for expert in np.unique(experts):
        rows = np.flatnonzero(experts == expert)
        h[rows] = subject.checkpoint.hidden_rules[int(expert)].one_hot(size)[tokens[rows]]
    return h


def _new_rows(tape: Tape, read: dict[int, Checked]) -> list[tuple[int, Int64]]:
    """The experts that all tokens went to and that were not read before, and their pairs."""
    tokens, choices = tape.ids.shape
    return [
        (int(expert), np.arange(tokens) * choices + k)
        for k, expert in enumerate(tape.ids[0])
        if int(expert) not in read and (tape.ids[:, k] == expert).all()
    ]


def _all_experts(subject: MoeSubject, read: dict[int, Checked]) -> Checked:
    findings: list[Finding] = []
    for expert, checked in sorted(read.items()):
        for finding in checked.findings:
            where, text = f"expert {expert}", finding.message
            place = f"{where}, {finding.place}"
            findings.append(replace(finding, place=place, message=f"{where}: {text}"))
    missing = [e for e in subject.experts if e not in read]
    if missing:
        message = f"experts {missing} were never reached, though all logits led there in turn"
        findings.append(Finding("readback", "expert", "router", message, float(len(missing))))
    cells = {
        name: sum(c.statistics.get(name, 0.0) for c in read.values())
        for name in ("cells", "wrong_cells")
    }
    return Checked(findings, cells)


def _together(stages: dict[str, Checked], findings: list[Finding]) -> Checked:
    statistics = {
        f"{stage}.{name}": value
        for stage, checked in stages.items()
        for name, value in checked.statistics.items()
    }
    return Checked([*(f for c in stages.values() for f in c.findings), *findings], statistics)
