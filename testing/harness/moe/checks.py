"""Judge what passed between the stages of an MoE layer, and say which expert is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from testing.harness.checks import Checked, check_product
from testing.harness.moe.subject import MoeSubject
from testing.harness.moe.taps import Tape
from testing.harness.verdict import Finding
from testing.oracles.arrays import Float64
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product
from testing.oracles.moe.routing import (
    Choice,
    Int64,
    relative_score_error,
    scores_of,
    unacceptable,
    weigh,
)
from testing.oracles.moe.stages import (
    Pairs,
    compare_combined,
    compare_hidden,
    compare_product,
)
from testing.oracles.rounding import FP32, FloatType, round_to
from testing.oracles.statistics import Comparison


def check_routing(subject: MoeSubject, logits: Float64, tape: Tape) -> list[Finding]:
    """The recorded choice must be one that float32 scores can lead to, and so must its weights."""
    routing, correction = subject.case.routing, subject.case.correction()
    routed = tape.ids[:, : routing.top_k]
    wrong = unacceptable(routed, logits, routing, correction)
    first = logits.shape[1]
    shared = np.arange(first, first + routing.shared)
    wrong += np.flatnonzero((tape.ids[:, routing.top_k :] != shared).any(axis=1)).tolist()
    if wrong:
        token = wrong[0]
        want = subject.choice(logits).ids[token].tolist()
        message = (
            f"{len(wrong)} of {len(logits)} tokens go to other experts than their logits say; the "
            f"first is token {token}: {tape.ids[token].tolist()}, want {want}"
        )
        return [Finding("routing", "expert", f"token {token}", message, float(len(wrong)))]
    return _check_weights(recorded_choice(subject, logits, tape), tape)


def recorded_choice(subject: MoeSubject, logits: Float64, tape: Tape) -> Choice:
    """The experts that the layer chose, with the weights that they should have."""
    routing = subject.case.routing
    scores, error = scores_of(logits, routing), relative_score_error(logits, routing)
    return weigh(tape.ids[:, : routing.top_k], scores, error, routing)


def _check_weights(choice: Choice, tape: Tape) -> list[Finding]:
    off = ~(np.abs(tape.weights - choice.weights) <= choice.error)
    if not off.any():
        return []
    token, k = (int(i) for i in np.argwhere(off)[0])
    place = f"token {token}, expert {choice.ids[token, k]}"
    message = (
        f"{off.sum()} of {off.size} weights of experts are wrong; the first is "
        f"{tape.weights[token, k]:.8g} (want {choice.weights[token, k]:.8g}) of {place}"
    )
    return [Finding("routing", "weight", place, message, float(off.sum()))]


def check_gate_up(subject: MoeSubject, x: Float64, pairs: Pairs, tape: Tape, check: str) -> Checked:
    """gate_up of every pair beside x̂·w13ᵀ, x̂ by the declared rule."""
    checkpoint = subject.checkpoint
    encoded = checkpoint.input_rule.encode(x)
    declared = subject.case.arithmetic.gate_up or FP32
    comparisons = {}
    for expert, rows in _used(subject, pairs):
        tokens = pairs.tokens[rows]
        product = Product(encoded.values[tokens], checkpoint.w13[expert], checkpoint.bias13(expert))
        comparisons[expert] = compare_product(
            checkpoint.format,
            product,
            tape.gate_up[rows],
            checkpoint.layout13,
            (encoded.near_tie * encoded.step)[tokens],
            declared,
            subject.case.accumulator,
        )
    checked = check_experts(comparisons, pairs, check)
    return _with(checked, _check_stored(tape.gate_up, "gate_up", declared, check))


def check_hidden(subject: MoeSubject, tape: Tape, check: str) -> Checked:
    """h of every pair beside the activation of the recorded gate_up, rounded once."""
    comparison = compare_hidden(subject.checkpoint, tape.gate_up, tape.hidden, subject.kind)
    return _with(
        check_product(comparison, check), _check_stored(tape.hidden, "h", subject.kind, check)
    )


def check_down(
    subject: MoeSubject,
    pairs: Pairs,
    tape: Tape,
    check: str,
    inexact: bool = False,
    exact_ties: bool = False,
) -> Checked:
    """The second product of every pair beside ĥ·w2ᵀ, ĥ the declared rule's of the recorded h.

    inexact: h is not such that float32 sums of an unquantised product are exact.
    exact_ties: where h lies on a tie only one code is right, as all arithmetic is exact.
    """
    checkpoint = subject.checkpoint
    declared = subject.case.arithmetic.down or FP32
    comparisons = {}
    for expert, rows in _used(subject, pairs):
        rule = checkpoint.hidden_rules[expert]
        encoded = rule.encode(tape.hidden[rows])
        product = Product(encoded.values, checkpoint.w2[expert], checkpoint.bias2(expert))
        comparisons[expert] = compare_product(
            checkpoint.format,
            product,
            tape.down[rows],
            checkpoint.layout2,
            None if exact_ties else encoded.near_tie * encoded.step,
            declared,
            subject.case.accumulator,
            inexact,
        )
    checked = check_experts(comparisons, pairs, check)
    return _with(checked, _check_stored(tape.down, "down", declared, check))


def check_combined(
    subject: MoeSubject, pairs: Pairs, tape: Tape, got: Float64, check: str
) -> Checked:
    """The output beside the weighted sum of the recorded rows of the second product."""
    count = len(subject.experts)
    comparison = compare_combined(pairs, tape.down, got, subject.kind, count)
    return check_product(comparison, check)


def check_experts(comparisons: dict[int, Comparison], pairs: Pairs, check: str) -> Checked:
    """Every expert by itself, and all rows of all experts together.

    A fault of one expert is named there. One that is too small to show in any expert by itself
    shows in all together, where rows are 32 tokens' and not four.
    """
    findings: list[Finding] = []
    for expert, comparison in comparisons.items():
        rows = pairs.tokens[pairs.rows_of(expert)]
        found = check_product(comparison, check).findings
        findings += [_in_expert(finding, expert, rows) for finding in found]
    if not comparisons:
        return Checked([], {})
    together = check_product(_pooled(list(comparisons.values())), check)
    if not findings:
        order = np.concatenate([pairs.tokens[pairs.rows_of(e)] for e in comparisons])
        findings = [_in_expert(finding, None, order) for finding in together.findings]
    return Checked(findings, together.statistics)


def _in_expert(finding: Finding, expert: int | None, tokens: Int64) -> Finding:
    """The finding with its expert's name, and tokens for rows."""
    place = finding.place
    if finding.family == "row":
        place = f"token {tokens[int(place.removeprefix('row '))]}"
    where = f"expert {expert}" if expert is not None else "all experts"
    return replace(finding, place=f"{where}, {place}", message=f"{where}: {finding.message}")


def _pooled(comparisons: list[Comparison]) -> Comparison:
    first = comparisons[0]
    noises = [c.noise for c in comparisons]
    return Comparison(
        np.concatenate([c.got for c in comparisons]),
        np.concatenate([c.parts for c in comparisons], axis=1),
        np.concatenate([c.exact for c in comparisons]),
        Noise(
            np.concatenate([n.bound for n in noises]),
            np.concatenate([n.std for n in noises]),
            np.concatenate([n.systematic for n in noises]),
        ),
        first.kind,
        first.layout,
    )


def _used(subject: MoeSubject, pairs: Pairs) -> Iterable[tuple[int, Int64]]:
    for expert in subject.experts:
        rows = pairs.rows_of(expert)
        if len(rows):
            yield expert, rows


def _check_stored(values: Float64, name: str, declared: FloatType, check: str) -> list[Finding]:
    unrounded = values != round_to(values, declared)
    unrounded &= np.isfinite(values)
    if not unrounded.any():
        return []
    message = (
        f"{unrounded.sum()} of {values.size} values of {name} have more bits than "
        f"{declared.name}, to which the layer declares to round it"
    )
    return [Finding(check, "dtype", name, message, float(unrounded.sum()))]


def _with(checked: Checked, findings: list[Finding]) -> Checked:
    return Checked([*checked.findings, *findings], checked.statistics)
