"""Declared seconds beside measured ones, and the edits that bring them together."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.plumb.cells.model import Test
from tools.plumb.deps.calls import Declared
from tools.plumb.history.summary import Seconds, Summary
from tools.plumb.starlark import syntax

_TAG = re.compile(r"seconds:\d+")


@dataclass(frozen=True)
class Drift:
    """A test whose declared seconds are far from the measured ones. wanted: p90, rounded up."""

    test: Test
    measured: Seconds

    @property
    def wanted(self) -> int:
        """Whole seconds, 1 at least."""
        return max(1, math.ceil(self.measured.p90))

    @property
    def ratio(self) -> float:
        """Measured p90 by declared; infinite where nothing is declared."""
        return self.measured.p90 / self.test.seconds if self.test.seconds else math.inf


@dataclass(frozen=True)
class Edit:
    """A line for buildozer, or why there is none (`by_hand`), for one call of a BUILD file."""

    call: str
    drifts: tuple[Drift, ...]
    command: str
    by_hand: str = ""


def drifts(
    tests: Mapping[str, Test],
    summaries: Iterable[Summary],
    *,
    least_runs: int,
    threshold: float,
    slack: float,
) -> list[Drift]:
    """Tests with `least_runs` passing runs whose p90 is off by more than `threshold` and `slack`.

    threshold: share of the declared seconds, such as 0.25. slack: seconds that are always
    tolerated, so that tests of a second are left alone.
    """
    found = []
    for summary in summaries:
        test = tests.get(summary.label)
        if test is None or summary.seconds is None or summary.seconds.count < least_runs:
            continue
        declared, drift = test.seconds or 0, Drift(test, summary.seconds)
        if abs(drift.measured.p90 - declared) > max(threshold * declared, slack):
            found.append(drift)
    return sorted(found, key=lambda drift: drift.test.label)


def edits(
    found: Iterable[Drift],
    tests: Mapping[str, Test],
    calls: Iterable[Declared],
    sources: Mapping[str, str],
) -> list[Edit]:
    """One edit a call of a BUILD file; a call that declares a test for each pool keeps the others'.

    sources: text of the BUILD files by path.
    """
    by_label = {target.label: call for call in calls for target in call.targets}
    grouped: dict[str, tuple[Declared, list[Drift]]] = {}
    homeless = []
    for drift in found:
        call = by_label.get(drift.test.label)
        if call is None:
            why = "no call of a BUILD file declares it"
            homeless.append(Edit(drift.test.label, (drift,), "", why))
        else:
            grouped.setdefault(call.label, (call, []))[1].append(drift)
    made = [_edit(call, own, tests, sources) for call, own in grouped.values()]
    return sorted([*made, *homeless], key=lambda edit: edit.call)


def _edit(
    call: Declared, own: list[Drift], tests: Mapping[str, Test], sources: Mapping[str, str]
) -> Edit:
    drifts_of = tuple(own)
    if call.by_hand:
        return Edit(call.label, drifts_of, "", call.by_hand)
    arguments = _arguments(sources.get(call.build_file, ""), call)
    written = arguments.get("seconds")
    if isinstance(written, ast.Dict):
        pools = {t.label: tests[t.label].pool for t in call.targets if t.label in tests}
        literal = _literal(written)
        if literal is not None:
            changed = {pools[drift.test.label]: drift.wanted for drift in own}
            unknown = sorted(changed.keys() - literal.keys())
            if not unknown:
                text = ",".join(f'"{pool}":{n}' for pool, n in {**literal, **changed}.items())
                return Edit(call.label, drifts_of, f"set seconds {{{text}}}|{call.label}")
    elif isinstance(written, ast.Constant) and isinstance(written.value, int) and len(own) == 1:
        return Edit(call.label, drifts_of, f"set seconds {own[0].wanted}|{call.label}")
    elif written is None and len(own) == 1:
        tag = next((tag for tag in _tags(arguments.get("tags")) if _TAG.fullmatch(tag)), None)
        if tag is not None:
            new = f"seconds:{own[0].wanted}"
            return Edit(call.label, drifts_of, f"replace tags {tag} {new}|{call.label}")
    place = f"{call.build_file}:{call.call.line}" if call.call else call.build_file
    if written is None:
        wanted = max(drift.wanted for drift in own)
        return Edit(call.label, drifts_of, "", f"{place} writes none; add seconds = {wanted} there")
    return Edit(call.label, drifts_of, "", f"{place} writes seconds that are no plain numbers")


def _arguments(source: str, call: Declared) -> dict[str, ast.expr]:
    for node in ast.walk(syntax.parse(source)):
        if isinstance(node, ast.Call) and call.call and node.lineno == call.call.line:
            return {k.arg: k.value for k in node.keywords if k.arg}
    return {}


def _literal(written: ast.Dict) -> dict[str, int] | None:
    try:
        value = ast.literal_eval(written)
    except ValueError:
        return None
    fine = all(isinstance(k, str) and isinstance(v, int) for k, v in value.items())
    return value if fine else None


def _tags(written: ast.expr | None) -> list[str]:
    try:
        return [str(tag) for tag in ast.literal_eval(written)] if written is not None else []
    except (ValueError, TypeError):
        return []
