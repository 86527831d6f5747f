"""What `testing.oracles.attention.rows` shows of an output (T, H, D): findings that name the place.

    checked = check_excess(Rows(got, exact, noise, kind, requests), "output")
    verdict.add(checked.findings, checked.statistics)

For layers whose error model knows the power of each error and not its direction: MLA, and the
outputs and states of the gated delta rule.
"""

from __future__ import annotations

import numpy as np

from testing.harness.checks import Checked
from testing.harness.verdict import Finding
from testing.oracles.arrays import Float64, Mask
from testing.oracles.attention.rows.rows import Bias, Excess, Rows


def check_excess(rows: Rows, check: str) -> Checked:
    """Finite, every element within the error model, and no place with more power than it has."""
    bad = ~np.isfinite(rows.got)
    if bad.any():
        return Checked(_elements(rows, bad, check, "finite", "are not finite"), {})
    excess, outside = rows.excess(), rows.outside()
    statistics = {f"z_{name}": family.worst_z for name, family in excess.items()}
    statistics["gain"] = _gain(rows)
    statistics["power"] = float(excess["whole"].ratio[0])
    statistics["outside"] = float(outside.sum())
    findings = _powers(excess, check)
    for direction, families in rows.biases().items():
        statistics |= {f"z_{direction}_{n}": float(np.abs(b.z).max()) for n, b in families.items()}
        findings += _biases(direction, families, check)
    if outside.any():
        findings += _elements(rows, outside, check, "element", "lie outside the error model")
    return Checked(findings, statistics)


def _gain(rows: Rows) -> float:
    square = float((rows.exact**2).sum())
    return float((rows.got * rows.exact).sum()) / square if square else 1.0


def _powers(excess: dict[str, Excess], check: str) -> list[Finding]:
    """A family most of whose places have too much power says nothing of where."""
    findings = []
    for name, family in excess.items():
        rejected = family.rejected
        if not rejected.any() or (name != "whole" and rejected.all() and len(rejected) > 1):
            continue
        for place in rejected.nonzero()[0]:
            ratio, limit = float(family.ratio[place]), float(family.limit[place])
            message = (
                f"errors in {family.places[place]} have {ratio:.3g} times the power that roundings "
                f"have (chance allows {limit:.3g})"
            )
            findings.append(Finding(check, name, family.places[place], message, ratio))
    return findings


def _biases(direction: str, families: dict[str, Bias], check: str) -> list[Finding]:
    findings = []
    for name, family in families.items():
        rejected = family.rejected
        if not rejected.any() or (name != "whole" and rejected.all() and len(rejected) > 1):
            continue
        for place in rejected.nonzero()[0]:
            gain = float(family.gain[place])
            message = f"{direction} of {1 + gain:.5f} (want 1) in {family.places[place]}"
            findings.append(Finding(check, name, family.places[place], message, gain))
    return findings


def _elements(rows: Rows, wrong: Mask, check: str, family: str, what: str) -> list[Finding]:
    """One finding: which heads and tokens, and the worst of them."""
    tokens, heads = wrong.any(axis=(1, 2)), wrong.any(axis=(0, 2))
    error: Float64 = np.abs(rows.got - rows.exact)
    with np.errstate(invalid="ignore"):
        error = np.where(wrong, np.nan_to_num(error / (rows.noise.bound + 1e-300), nan=np.inf), 0)
    t, h, d = (int(i) for i in np.unravel_index(int(np.argmax(error)), error.shape))
    where = "all tokens" if tokens.all() else ", ".join(rows.token(int(i)) for i in _few(tokens))
    on = "all heads" if heads.all() else ", ".join(f"head {i}" for i in _few(heads))
    message = (
        f"{wrong.sum()} of {wrong.size} elements {what}, in {where}; {on}. The worst is "
        f"{rows.got[t, h, d]:.6g} (want {rows.exact[t, h, d]:.6g} ± {rows.noise.bound[t, h, d]:.2g}"
        f") at {rows.token(t)}, head {h}, element {d}"
    )
    return [Finding(check, family, f"{where}; {on}", message, float(wrong.sum()))]


def _few(which: Mask) -> list[int]:
    return [int(i) for i in which.nonzero()[0][:6]]
