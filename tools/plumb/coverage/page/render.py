"""Renders the matrix as one HTML page that loads nothing: markup, style, script and data in one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2

from tools.plumb.cells.missing import SENTENCES
from tools.plumb.cells.model import CADENCES, LEVELS, arch_order

_HERE = Path(__file__).parent


def render(content: Mapping[str, Any]) -> str:
    """The page of what `tools.plumb.coverage.as_json.content` gives."""
    columns = _columns(content)
    widest = max((claim["cost"]["gpu_seconds"] for claim in content["claims"]), default=0)
    spans = [(arch, len(list(group))) for arch, group in groupby(arch for arch, _ in columns)]
    # A jinja variable, so that nothing in a claim can end the script element.
    lacks = {str(lack): sentence for lack, sentence in SENTENCES.items()}
    data = json.dumps({**content, "lacks": lacks}, separators=(",", ":")).replace("<", "\\u003c")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            content,
            archs=[arch for arch, _ in spans],
            arch_spans=spans,
            claims=[
                _claim(claim, columns, widest, content["tests"]) for claim in content["claims"]
            ],
            columns=columns,
            css=_text("page.css"),
            data=data,
            js=_text("page.js"),
            levels=[level for level in LEVELS if _has_level(content, level)],
            reasons=_reasons(content),
        )
    )


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["thousands"] = lambda number: f"{number:,}"
    return made


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _columns(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = {
        (cell["arch"], cell["cadence"]) for claim in content["claims"] for cell in claim["cells"]
    }
    return sorted(found, key=lambda column: (arch_order(column[0]), _rank(column[1]), column[1]))


def _rank(cadence: str) -> int:
    return CADENCES.index(cadence) if cadence in CADENCES else len(CADENCES)


def _has_level(content: Mapping[str, Any], level: str) -> bool:
    return any(claim["level"] == level for claim in content["claims"])


def _reasons(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    cells = [cell for claim in content["claims"] for cell in claim["cells"]]
    counted = Counter(cell["reason"] for cell in cells if cell["reason"])
    return [
        {"key": str(lack), "count": counted[lack], "sentence": sentence}
        for lack, sentence in SENTENCES.items()
        if counted[lack]
    ]


def _claim(
    claim: Mapping[str, Any],
    columns: list[tuple[str, str]],
    widest: int,
    tests: Mapping[str, Any],
) -> dict[str, Any]:
    cells = {(cell["arch"], cell["cadence"]): _cell(cell, tests) for cell in claim["cells"]}
    labels = [label for cell in claim["cells"] for label in cell["tests"]]
    labels += [near["test"] for cell in claim["cells"] for near in cell["near"]]
    words = [claim["name"], claim["sentence"], *sorted(set(labels))]
    return {
        **claim,
        "columns": [cells.get(column) for column in columns],
        "missing": sum(not cell["covered"] for cell in claim["cells"]),
        "text": " ".join(words).lower(),
        "width": _percent(claim["cost"]["gpu_seconds"], widest),
        "alone_width": _percent(claim["alone"]["gpu_seconds"], widest),
    }


def _cell(cell: Mapping[str, Any], tests: Mapping[str, Any]) -> dict[str, Any]:
    if not cell["covered"]:
        state, mark, note, said = (
            "missing",
            "cross",
            _short(cell["reason"]),
            f"missing, {cell['because']}",
        )
    else:
        seconds = sum(tests[label]["seconds"] or 0 for label in cell["tests"])
        count = len(cell["tests"])
        state = "covered" if cell["demanded"] else "extra"
        mark, note = "tick", f"{seconds:,} s"
        said = f"{count} test{'' if count == 1 else 's'}, {seconds} seconds"
    return {
        **cell,
        "state": state,
        "mark": mark,
        "count": len(cell["tests"]) or "",
        "note": note,
        "said": said,
    }


def _short(reason: str) -> str:
    words = {
        "nothing": "no test",
        "never_runs": "never runs",
        "skipped": "skipped",
        "only_nightly": "only nightly",
        "only_labelled": "only labelled",
        "other_cadence": "less often",
        "other_level": "other level",
        "other_architecture": "other arch.",
    }
    return words[reason]


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0
