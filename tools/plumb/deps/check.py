"""Compares what each Python target imports and reads with what it declares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tools.plumb.deps import needs, unused
from tools.plumb.deps.calls import declared
from tools.plumb.deps.findings import Finding, Kind, matches
from tools.plumb.deps.needs import Reader
from tools.plumb.deps.policy import POLICY_PATH
from tools.plumb.deps.resolve import Resolver
from tools.plumb.deps.workspace import Workspace

# So many calls with the same finding in the same file have it from a macro.
_OF_A_MACRO = 3
_OF_A_MODULE = (Kind.NO_TARGET, Kind.UNKNOWN)


def check(workspace: Workspace, patterns: Sequence[str] = ()) -> list[Finding]:
    """What is wrong, sorted by call; of the targets that match `patterns` alone.

    Raises SyntaxError if a BUILD file cannot be read.
    """
    reader = Reader(workspace, Resolver(workspace))
    found: list[Finding] = []
    for call in declared(workspace):
        labels = [call.label, *(target.label for target in call.targets)]
        if not any(matches(label, patterns) for label in labels):
            continue
        needed = [reader.read(call, target) for target in call.targets]
        found += _merged(finding for need in needed for finding in need.findings)
        found += unused.find(call, needed, reader)
    if not patterns:
        found += _stale(reader)
    return sorted(_of_macros(found), key=lambda f: (f.call, f.kind, f.label, f.where))


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for the targets of a call that lack the same label."""
    merged: dict[tuple[str, ...], Finding] = {}
    for finding in findings:
        # Several names out of one module lack the same.
        same = finding.label or (finding.by_hand if finding.kind in _OF_A_MODULE else finding.where)
        key = (finding.call, finding.attribute, same)
        before = merged.get(key)
        if before is None:
            merged[key] = finding
        else:
            kind = Kind.MISSING if Kind.MISSING in (before.kind, finding.kind) else before.kind
            targets = tuple(sorted({*before.targets, *finding.targets}))
            merged[key] = replace(before, kind=kind, targets=targets)
    return list(merged.values())


def _of_macros(findings: list[Finding]) -> list[Finding]:
    """The same for a source that a macro gives to many calls: it lacks the label once."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        foreign = needs.BY_MACRO in finding.by_hand
        key = (finding.where, finding.what, finding.label) if foreign else ("", str(id(finding)))
        groups.setdefault(key, []).append(finding)
    kept = []
    for group in groups.values():
        targets = tuple(sorted({label for finding in group for label in finding.targets}))
        kept += [replace(group[0], targets=targets)] if len(group) >= _OF_A_MACRO else group
    return kept


def _stale(reader: Reader) -> list[Finding]:
    policy = reader.workspace.policy
    stale = [
        (f"[[absent]] {entry.target} {entry.name}", entry.target)
        for entry in policy.absent
        if entry not in reader.absent_used
    ]
    stale += [
        (f"[[dynamic]] {entry.file}", "")
        for entry in policy.dynamic
        if entry.file not in reader.dynamic_seen
    ]
    why = "nothing needs this exemption any more; delete it"
    return [
        Finding(Kind.EXEMPTION, target or "//:policy", (), "", "", POLICY_PATH, what, why)
        for what, target in stale
    ]
