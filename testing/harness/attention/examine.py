"""Ask an attention layer a call, and judge its output and its cache by the oracle."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from testing.harness.attention.case import AttentionCase, Batch, Call, make_batch
from testing.harness.attention.layer import LoadedAttention, ask, build
from testing.harness.attention.rows import RowLabels, check_rows, joined_noise
from testing.harness.records import record
from testing.harness.verdict import Finding, Verdict
from testing.oracles.arrays import Float64
from testing.oracles.attention.dense import Attended, Rule, attend
from testing.oracles.attention.error_model import RowNoise, attention_noise
from testing.oracles.attention.readings import Reading, explain
from testing.oracles.attention.scores import RowComparison


@dataclass(frozen=True)
class Wanted:
    """What a call should give: of each request, and of all rows together."""

    rule: Rule
    attended: list[Attended]
    noise: RowNoise
    labels: RowLabels

    def compare(self, batch: Batch, got: Float64) -> RowComparison:
        """got: (T, Hq, Dv)."""
        exact = np.concatenate([a.output for a in self.attended])
        return RowComparison(got, exact, self.noise, batch.case.kind, self.labels.families())


def wanted(batch: Batch, sinks: Float64 | None) -> Wanted:
    """By the oracle and the error model."""
    case = batch.case
    rule = case.rule(sinks)
    attended = [attend(request, rule) for request in batch.requests]
    noises = [attention_noise(a, case.arithmetic, case.kind) for a in attended]
    labels = RowLabels.of(
        batch.call.query_lens, batch.positions, case.heads, case.kv_heads, case.page_size
    )
    return Wanted(rule, attended, joined_noise(noises), labels)


def judge(batch: Batch, sinks: Float64 | None, got: Float64) -> Verdict:
    """got: (T, Hq, Dv) of the whole layer."""
    want = wanted(batch, sinks)
    comparison = want.compare(batch, got)
    checked = check_rows(comparison, want.labels)
    verdict = Verdict(f"{batch.case.subject}, {batch.call}")
    verdict.add(checked.findings, checked.statistics)
    if checked.findings and checked.findings[0].family != "finite":
        verdict.add(_read(batch, want, comparison))
    return verdict


def _read(batch: Batch, want: Wanted, comparison: RowComparison) -> list[Finding]:
    """What the wrong rows are instead, where the oracle knows a wrong layer that gives them."""
    scales = batch.case.scales if batch.case.fp8 else None
    readings: list[Reading] = explain(
        batch.requests, want.rule, comparison, want.labels.request, batch.case.page_size, scales
    )
    return [
        Finding("reading", "reading", reading.name, f"this is what one gets where {reading.name}")
        for reading in readings
    ]


def examine(
    loaded: LoadedAttention,
    calls: Sequence[Call],
    rng: np.random.Generator,
    recorded: bool = True,
) -> Verdict:
    """Every call in turn, in one verdict.

    recorded: keep the statistics among the test's outputs; not for a layer with a planted fault.
    """
    whole = Verdict(loaded.case.subject)
    for call in calls:
        start = time.perf_counter()
        batch = make_batch(loaded.case, call, rng)
        answer = ask(loaded, batch)
        verdict = judge(batch, loaded.sinks, answer.output).add(answer.findings)
        if recorded:
            record_call(verdict, loaded, call, time.perf_counter() - start)
        named = [
            Finding(f.check, f.family, f.place, f"{call}: {f.message}", f.value)
            for f in verdict.findings
        ]
        whole.add(named)
    return whole


def record_call(verdict: Verdict, loaded: LoadedAttention, call: Call, seconds: float) -> None:
    """Keep one call's statistics among the test's outputs."""
    case = loaded.case
    record(
        {
            "attention": "dense" if case.window is None else "swa",
            "subject": verdict.subject,
            "backend": case.backend,
            "mode": call.mode,
            "dtype": "fp8 cache" if case.fp8 else case.dtype,
            "requests": len(call.requests),
            "device": loaded.device_name,
            "seconds": round(seconds, 4),
            "ok": verdict.ok,
            "statistics": verdict.statistics,
        }
    )


def examine_case(
    case: AttentionCase, calls: Sequence[Call], seed: int, device: torch.device | str
) -> Verdict:
    """Layer and calls, all from one seed."""
    rng = np.random.default_rng(seed)
    return examine(build(case, rng, device), calls, rng)
