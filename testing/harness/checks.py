"""Compare what a layer gave with what the oracles say, and word the differences."""

from dataclasses import dataclass

import numpy as np

from testing.harness.verdict import Finding
from testing.oracles.arrays import Float64, Mask
from testing.oracles.formats import ActivationRule, Activations
from testing.oracles.locate import biases, describe_cells, misplaced_shards
from testing.oracles.places import Layout
from testing.oracles.statistics import FALSE_ALARMS, Comparison, evidence

_PLURAL = {
    "gain": "global gains",
    "shard": "shards",
    "k_block": "K blocks",
    "shard_k_block": "K blocks of a shard",
    "tile": "tiles",
    "row": "rows",
    "column": "columns",
}

_NOISE_DEVIATIONS = 5.5


@dataclass(frozen=True)
class Checked:
    """Findings and the figures that led to them."""

    findings: list[Finding]
    statistics: dict[str, float]


def check_finite(got: Float64, layout: Layout, check: str) -> list[Finding]:
    """Every element of an output (M, N) must be finite."""
    bad = ~np.isfinite(got)
    if not bad.any():
        return []
    row, column = np.argwhere(bad)[0]
    place = f"row {row}, {layout.column_label(int(column))}"
    message = (
        f"{bad.sum()} of {bad.size} outputs are not finite, in {bad.any(axis=1).sum()} rows and "
        f"{bad.any(axis=0).sum()} columns; the first is {got[row, column]} at {place}"
    )
    return [Finding(check, "finite", place, message, float(bad.sum()))]


def check_product(comparison: Comparison, check: str) -> Checked:
    """The output must equal the exact product up to the error model: elements and statistics."""
    findings = check_finite(comparison.got, comparison.layout, check)
    if findings:
        return Checked(findings, {})
    families = evidence(comparison)
    statistics = {f"z_{name}": family.worst_z for name, family in families.items()}
    statistics["gain"] = 1 + float(families["gain"].gain[0])
    outside = comparison.outside()
    statistics["outside"] = float(outside.sum())
    if not outside.any() and not any(f.rejected.any() for f in families.values()):
        return Checked([], statistics)
    findings = _bias_findings(comparison, check)
    counts = {n: (int(f.rejected.sum()), len(f.places)) for n, f in families.items()}
    findings += _element_findings(comparison, outside, counts, check)
    return Checked(findings, statistics)


def _bias_findings(comparison: Comparison, check: str) -> list[Finding]:
    misplaced = misplaced_shards(comparison)
    findings = [
        Finding(check, "shard", f"shard '{a.name}'", f"shard '{a.name}' holds shard '{b.name}'")
        for a, b in misplaced
    ]
    for bias in biases(comparison, tuple(a for a, _ in misplaced)):
        digits = max(2, min(7, 1 - int(np.floor(np.log10(max(bias.deviation, 1e-7))))))
        message = (
            f"gain {bias.gain:.{digits}f} ± {bias.deviation:.{digits}f} (want 1) in {bias.place}"
        )
        findings.append(Finding(check, bias.place.family, bias.place.label, message, bias.gain))
    return findings


def check_elements(comparison: Comparison, check: str) -> Checked:
    """Element by element only: for outputs of too few rows to tell biased places apart."""
    findings = check_finite(comparison.got, comparison.layout, check)
    outside = comparison.outside()
    if not findings and outside.any():
        rows = ", ".join(str(row) for row in outside.any(axis=1).nonzero()[0])
        message = f"{_worst_element(comparison, outside)}; in rows {rows}"
        findings = [Finding(check, "element", f"rows {rows}", message, float(outside.sum()))]
    return Checked(findings, {"outside": float(outside.sum())})


def _element_findings(
    comparison: Comparison,
    outside: Mask,
    counts: dict[str, tuple[int, int]],
    check: str,
) -> list[Finding]:
    biased = ", ".join(
        f"{n} of {total} {_PLURAL[name]}" for name, (n, total) in counts.items() if n
    )
    message = (
        f"{_worst_element(comparison, outside)}; significantly biased at {FALSE_ALARMS:g}: "
        f"{biased or 'no part as a whole'}"
    )
    return [Finding(check, "element", "elements", message, float(outside.sum()))]


def _worst_element(comparison: Comparison, outside: Mask) -> str:
    error = np.abs(comparison.residual()) / comparison.typical_ulp()
    error = np.where(outside, error, 0) if outside.any() else error
    row, column = np.unravel_index(int(np.argmax(error)), error.shape)
    return (
        f"{outside.sum()} of {outside.size} elements differ by more than the rounding allows; the "
        f"worst is {comparison.got[row, column]:.6g} (want {comparison.exact[row, column]:.6g}) at "
        f"row {row}, {comparison.layout.column_label(int(column))}"
    )


def check_readback(comparison: Comparison, check: str = "one-hot readback") -> Checked:
    """With x = I (K, K) each output is one weight cell and must equal it, rounded once.

    comparison: got and exact are (K, N): the transpose of the weight.
    """
    findings = check_finite(comparison.got, comparison.layout, check)
    if findings:
        return Checked(findings, {})
    wrong = comparison.outside().T
    if not wrong.any():
        return Checked([], {"cells": float(wrong.size), "wrong_cells": 0.0})
    row, k = (int(i) for i in np.argwhere(wrong)[0])
    shard = comparison.layout.shard_of(row)
    place = f"{comparison.layout.column_label(row).replace('column', 'row')}, k {k}"
    findings = [
        Finding(check, "shard", f"shard '{a.name}'", f"shard '{a.name}' holds shard '{b.name}'")
        for a, b in misplaced_shards(comparison)
    ]
    boxes = "; ".join(describe_cells(wrong, comparison.layout))
    message = (
        f"{boxes}; the first reads {comparison.got[k, row]:.6g}, the checkpoint says "
        f"{comparison.exact[k, row]:.6g} ({place})"
    )
    findings.append(
        Finding(check, "cell", f"shard '{shard.name}', {place}", message, float(wrong.sum()))
    )
    return Checked(findings, {"cells": float(wrong.size), "wrong_cells": float(wrong.sum())})


def check_codes(
    read: Float64, x: Float64, want: Activations, check: str = "activation codes"
) -> list[Finding]:
    """Dequantised activations read from the layer (M, K) must carry the declared rule's codes.

    A cell passes if it lies less than half a step from the code, or next to it off an exact tie.
    """
    step = np.where(want.step == 0, np.inf, want.step)
    distance = np.abs(read - want.values) / step
    wrong = (distance >= 0.5) & ~(want.near_tie & (distance < 1.5))
    wrong |= (want.step == 0) & (read != want.values)
    if not wrong.any():
        return []
    row, k = (int(i) for i in np.argwhere(wrong)[0])
    place = f"row {row}, k {k}"
    seen, wanted = read[row, k] / step[row, k], want.values[row, k] / step[row, k]
    message = (
        f"{wrong.sum()} of {wrong.size} activation codes differ from the declared rule; the first "
        f"is {seen:.2f} (want {wanted:.0f}) for x = {x[row, k]:.6g} with step "
        f"{want.step[row, k]:.6g} ({place})"
    )
    return [Finding(check, "code", place, message, float(wrong.sum()))]


def check_noise(
    read: Float64,
    x: Float64,
    want: Activations,
    rule: ActivationRule,
    check: str = "activation noise",
) -> Checked:
    """The power of x̂ - x beside the model's prediction; rounding to nearest gives 1.

    An error uniform in ±s/2 has a square of mean s²/12 and variance s⁴/180, so over cells of steps
    s the ratio deviates by √(Σs⁴/180)/(Σs²/12). Measured with that for the unit, 46,168 right
    layers (both int8 formats, bf16 and fp16, 48 to 65,536 cells) had a deviation of 1.01, 3.8 in a
    thousand beyond 3 and none beyond 4.5; the limit is 5.5.
    """
    noise = np.sqrt(np.mean((read - x) ** 2) / np.mean(x**2))
    ratio = float((noise / rule.relative_noise(x)) ** 2)
    allowed = _NOISE_DEVIATIONS * noise_deviation(want)
    statistics = {"activation_noise_ratio": ratio, "activation_noise": float(noise)}
    if abs(ratio - 1) <= allowed:
        return Checked([], statistics)
    message = (
        f"activation noise power is {ratio:.3f} of the model's (want 1 ± {allowed:.3f}); "
        "truncation in place of rounding gives 4"
    )
    return Checked([Finding(check, "noise", "activations", message, ratio)], statistics)


def noise_deviation(want: Activations) -> float:
    """Standard deviation of `check_noise`'s ratio over right layers."""
    square = want.step**2
    return float(np.sqrt(np.sum(square**2) / 180) / (np.sum(square) / 12))


def check_row_of_zeros(
    got: Float64, row: int, bias: Float64 | None, layout: Layout, check: str = "row of zeros"
) -> list[Finding]:
    """Row `row` of x is all zeros: every output is finite, and that row is the bias or zero."""
    findings = check_finite(got, layout, check)
    wrong = got[row] != (0.0 if bias is None else bias)
    if findings or not wrong.any():
        return findings
    message = f"row {row} of x is all zeros, yet {wrong.sum()} of its outputs are not the bias or 0"
    return [Finding(check, "zeros", f"row {row}", message, float(wrong.sum()))]


def check_spoilt_row(
    clean: Float64,
    spoilt: Float64,
    row: int,
    value: float,
    must_be_nan: bool = True,
    check: str = "containment",
) -> list[Finding]:
    """A NaN or Inf, `value`, in row `row` of x spoils that row and leaves the other rows' bits.

    must_be_nan: Inf in the output will not do.
    """
    findings = []
    kept = ~np.isnan(spoilt[row]) if must_be_nan else np.isfinite(spoilt[row])
    if kept.any():
        message = (
            f"x has {value} in row {row}, yet {kept.sum()} of {kept.size} outputs there are "
            f"{'not NaN' if must_be_nan else 'finite'}"
        )
        findings.append(Finding(check, "spoilt", f"row {row}", message, float(kept.sum())))
    changed = (spoilt != clean).any(axis=1)
    changed[row] = False
    if changed.any():
        other = int(changed.nonzero()[0][0])
        message = f"{value} in row {row} of x changed {changed.sum()} other rows, first row {other}"
        findings.append(Finding(check, "spread", "other rows", message, float(changed.sum())))
    return findings
