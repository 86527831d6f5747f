"""What a wrong output is instead: the one change of the definition that explains it."""

from __future__ import annotations

from dataclasses import replace

from testing.harness.verdict import Finding
from testing.oracles.attention.mla.mla import MlaCall, attend
from testing.oracles.attention.mla.noise import MlaArithmetic, mla_noise
from testing.oracles.attention.mla.readings import readings
from testing.oracles.attention.rows.rows import Rows

CHECK = "reading"


def explain(exact: MlaCall, arithmetic: MlaArithmetic, rows: Rows) -> list[Finding]:
    """A finding for each reading that the output fits within the error model."""
    findings = []
    for name, other in readings(exact):
        noise = mla_noise(other, arithmetic)
        fitted = replace(rows, exact=attend(other), noise=noise, directions={})
        if not any(family.rejected.any() for family in fitted.excess().values()):
            message = f"the output is right for this: {name}"
            findings.append(Finding(CHECK, CHECK, name, message))
    return findings
