"""Compare what a layer gave with what the oracles say, and word the differences."""

from dataclasses import dataclass

import numpy as np

from testing.harness.verdict import Finding
from testing.oracles.arrays import Float64, Mask
from testing.oracles.formats import Activations, LinearFormat
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


def _element_findings(
    comparison: Comparison,
    outside: Mask,
    counts: dict[str, tuple[int, int]],
    check: str,
) -> list[Finding]:
    error = np.abs(comparison.residual()) / comparison.typical_ulp()
    error = np.where(outside, error, 0) if outside.any() else error
    row, column = np.unravel_index(int(np.argmax(error)), error.shape)
    place = f"row {row}, {comparison.layout.column_label(int(column))}"
    biased = ", ".join(
        f"{n} of {total} {_PLURAL[name]}" for name, (n, total) in counts.items() if n
    )
    message = (
        f"{outside.sum()} of {outside.size} elements differ by more than the rounding allows; the "
        f"worst is {comparison.got[row, column]:.6g} (want {comparison.exact[row, column]:.6g}) at "
        f"{place}; significantly biased at {FALSE_ALARMS:g}: {biased or 'no part as a whole'}"
    )
    return [Finding(check, "element", place, message, float(outside.sum()))]


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
    read: Float64, x: Float64, fmt: LinearFormat, check: str = "activation noise"
) -> Checked:
    """The power of x̂ - x beside the model's prediction; rounding to nearest gives 1.

    A uniform error has kurtosis 9/5, so the ratio over n cells has variance 4/(5n); the largest
    deviation allowed has the family's false-alarm rate (4.9 deviations), with a fifth of the
    cells counted since bf16 inputs fall on few distinct phases of the grid.
    """
    noise = np.sqrt(np.mean((read - x) ** 2) / np.mean(x**2))
    ratio = float((noise / fmt.relative_activation_noise(x)) ** 2)
    allowed = float(4.9 * np.sqrt(0.8 / (read.size / 5)))
    statistics = {"activation_noise_ratio": ratio, "activation_noise": float(noise)}
    if abs(ratio - 1) <= allowed:
        return Checked([], statistics)
    message = (
        f"activation noise power is {ratio:.3f} of the model's (want 1 ± {allowed:.3f}); "
        "truncation in place of rounding gives 4"
    )
    return Checked([Finding(check, "noise", "activations", message, ratio)], statistics)


def check_nan_row(
    clean: Float64, poisoned: Float64, row: int, check: str = "NaN containment"
) -> list[Finding]:
    """A NaN in row `row` of x makes that row NaN and leaves the other rows' bits alone."""
    findings = []
    kept = ~np.isnan(poisoned[row])
    if kept.any():
        message = (
            f"x has a NaN in row {row}, yet {kept.sum()} of {kept.size} outputs there are numbers"
        )
        findings.append(Finding(check, "nan", f"row {row}", message, float(kept.sum())))
    changed = (poisoned != clean).any(axis=1)
    changed[row] = False
    if changed.any():
        other = int(changed.nonzero()[0][0])
        message = (
            f"a NaN in row {row} of x changed {changed.sum()} other rows, the first row {other}"
        )
        findings.append(Finding(check, "nan", f"row {other}", message, float(changed.sum())))
    return findings
