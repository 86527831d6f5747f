"""All probes of one MoE layer, put together in one verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from testing.harness.moe.layer import LoadedMoe, MoeCase, build
from testing.harness.moe.probes import OUTPUT_PROBES, EndToEnd, MoeExamination, MoeProbe
from testing.harness.moe.stage_probes import STAGE_PROBES, StageProbe, Stages
from testing.harness.moe.subject import MoeSubject
from testing.harness.records import record
from testing.harness.verdict import Verdict
from testing.oracles.moe.checkpoints import MoeCheckpoint


def examine(
    loaded: LoadedMoe,
    checkpoint: MoeCheckpoint,
    rng: np.random.Generator,
    probes: Sequence[MoeProbe] = OUTPUT_PROBES,
    stage_probes: Sequence[StageProbe] = STAGE_PROBES,
    recorded: bool = True,
) -> Verdict:
    """Ask what its outputs tell, then what its stages tell, if it has any.

    recorded: keep the statistics among the test's outputs; not for a layer with a planted fault.
    """
    start = time.perf_counter()
    subject = MoeSubject(loaded.case, checkpoint)
    examination = MoeExamination(subject, rng, probes)
    answers = loaded.answer(examination.questions)
    verdict = examination.judge(answers.outputs).add(answers.findings)
    if loaded.is_staged:
        for probe in stage_probes:
            checked = probe.examine(loaded, subject, rng)
            verdict.add(checked.findings, {**checked.statistics, **verdict.statistics})
    if recorded:
        record_verdict(verdict, loaded, time.perf_counter() - start)
    return verdict


def record_verdict(verdict: Verdict, loaded: LoadedMoe, seconds: float) -> None:
    """Keep one layer's statistics among the test's outputs."""
    case = loaded.case
    record(
        {
            "subject": verdict.subject,
            "format": case.method.format.name,
            "kind": "moe",
            "shape": case.shape,
            "dtype": case.dtype,
            "backends": loaded.backends,
            "device": loaded.device_name,
            "seconds": round(seconds, 4),
            "ok": verdict.ok,
            "statistics": verdict.statistics,
        }
    )


def examine_case(case: MoeCase, seed: int, device: torch.device | str) -> Verdict:
    """Checkpoint, layer and probes of one case, all from one seed."""
    rng = np.random.default_rng(seed)
    checkpoint = case.checkpoint(rng)
    loaded = build(case, checkpoint, device)
    if case.thorough:
        return examine(loaded, checkpoint, rng)
    return examine(loaded, checkpoint, rng, (EndToEnd(),), (Stages(),))
