"""The answers as they stand in the JSON; a change of a field's meaning raises SCHEMA."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tools.plumb.cells.model import Cell, Test
from tools.plumb.trim.answer import Answer
from tools.plumb.trim.evidence.judge import Judgement
from tools.plumb.trim.optimise.result import Choice
from tools.plumb.trim.outcome import CellChange
from tools.plumb.trim.propose.candidate import Candidate
from tools.plumb.trim.saving import Saving, Sum
from tools.plumb.trim.waivers import Waiver

SCHEMA = 1


def as_json(fields: Mapping[str, Any]) -> str:
    """One object, with `schema`."""
    return json.dumps({"schema": SCHEMA, **fields}, indent=2)


def of_answer(answer: Answer) -> dict[str, Any]:
    """`plumb trim --drop …`."""
    return {
        "drop": list(answer.change.drop),
        "merge": [
            {"tests": list(merge.labels), "seconds": answer.merged[merge.labels[0]].seconds}
            for merge in answer.change.merges
        ],
        "add": list(answer.change.add),
        "saving": {
            "total": _saving(answer.total),
            "suites": {name: _saving(saving) for name, saving in answer.suites.items()},
            "pools": {name: _saving(saving) for name, saving in answer.pools.items()},
        },
        "dropped": [
            {
                **_test(dropped.test),
                "verdict": dropped.verdict,
                "cells": [_cell_change(cell) for cell in dropped.cells],
                "doubts": list(answer.doubts.get(dropped.test.label, ())),
            }
            for dropped in answer.dropped
        ],
        "cells": [_cell_change(cell) for cell in answer.cells],
        "unmet": [_cell_change(cell) for cell in answer.unmet],
        "missing_elsewhere": answer.missing_elsewhere,
        "emptied_suites": list(answer.emptied),
        "waivers": {
            "accepted": _waivers(answer.waivers.accepted),
            "expired": _waivers(answer.waivers.expired),
            "idle": _waivers(answer.waivers.idle),
        },
        "refused": answer.refused,
    }


def of_candidates(candidates: Iterable[Candidate]) -> dict[str, Any]:
    """`plumb trim --propose`."""
    return {
        "candidates": [
            {
                "kind": candidate.kind,
                "title": candidate.title,
                "tests": list(candidate.tests),
                "seconds": candidate.seconds,
                "gpu_seconds": candidate.gpu_seconds,
                "evidence": list(candidate.evidence),
                "doubts": list(candidate.doubts),
            }
            for candidate in candidates
        ]
    }


def of_choice(choice: Choice) -> dict[str, Any]:
    """`plumb trim --optimise`."""
    return {
        "proof": vars(choice.proof),
        "gpu_seconds": choice.gpu_seconds,
        "cpu_seconds": choice.cpu_seconds,
        "kept_cells": choice.kept,
        "given_up": [_cell(cell) for cell in choice.given_up],
        "without_seconds": list(choice.undeclared),
        "prices": [vars(price) for price in choice.prices],
        "unpriced_claims": choice.unpriced,
    }


def of_judgements(judgements: Iterable[Judgement]) -> list[dict[str, Any]]:
    """What the evidence says of each test that goes."""
    return [
        {
            "label": judged.label,
            "verdict": judged.verdict,
            "lines": {path: list(lines) for path, lines in judged.lines.items()},
            "line_count": judged.line_count,
            "faults": list(judged.faults),
            "fault_count": judged.fault_count,
            "reasons": list(judged.reasons),
        }
        for judged in judgements
    ]


def _saving(saving: Saving) -> dict[str, Any]:
    return {
        "before": _sum(saving.before),
        "after": _sum(saving.after),
        "change": _sum(saving.change),
    }


def _sum(total: Sum) -> dict[str, int]:
    return dict(vars(total))


def _test(test: Test) -> dict[str, Any]:
    return {
        "label": test.label,
        "pool": test.pool,
        "arch": test.arch,
        "cadence": test.cadence,
        "suite": test.suite,
        "seconds": test.seconds,
        "gpu_seconds": test.gpu_seconds,
    }


def _cell(cell: Cell) -> dict[str, str]:
    return {"claim": cell.claim, "arch": cell.arch, "cadence": cell.cadence}


def _cell_change(change: CellChange) -> dict[str, Any]:
    missing = change.missing
    return {
        **_cell(change.cell),
        "state": change.state,
        "before": [test.label for test in change.before],
        "after": [test.label for test in change.after],
        "why": missing.sentence if missing else None,
        "near": [
            {"label": near.test.label, "lacks": list(near.lacks)}
            for near in (missing.near if missing else ())
        ],
    }


def _waivers(waivers: Iterable[Waiver]) -> list[dict[str, str]]:
    return [
        {
            "cell": str(waiver.cell),
            "reason": waiver.reason,
            "owner": waiver.owner,
            "expires": waiver.expires.isoformat(),
        }
        for waiver in waivers
    ]
