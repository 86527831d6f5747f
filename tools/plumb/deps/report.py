"""Prints findings: text for a reader, JSON for a program."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Sequence

from tools.plumb.answer.words import counted
from tools.plumb.deps.findings import Finding, Kind

SCHEMA = 1
_SHOWN_TARGETS = 3
_SAID = {
    Kind.MISSING: "needs `{what}`, and nothing declares it",
    Kind.INDIRECT: "needs `{what}`, which it gets only through another dep",
    Kind.UNUSED: "declares {what} in {attribute}, and makes no use of it",
    Kind.NO_TARGET: "needs `{what}`",
    Kind.UNKNOWN: "needs `{what}`",
    Kind.DYNAMIC: "imports what nobody can read from the source: `{what}`",
    Kind.EXEMPTION: "{what}",
    Kind.UNREADABLE: f"is no Python {platform.python_version()}: {{what}}",
}


def lines(findings: Sequence[Finding], checked: int, command: str) -> Iterator[str]:
    """The text, one line after the other.

    checked: number of Python targets. command: how this command is called, such as 'plumb'.
    """
    for finding in findings:
        said = _SAID[finding.kind].format(what=finding.what, attribute=finding.attribute)
        yield f"{finding.where}: {finding.call}{_targets(finding)} {said}"
        yield f"    {_remedy(finding, command)}"
    if findings:
        yield _total(findings, command)
    elif checked:
        targets = counted(checked, "Python target")
        yield f"Looked at {targets}: the deps and data are what the sources need."
    else:
        yield "There is no Python target here to look at."


def as_json(findings: Sequence[Finding], checked: int) -> str:
    """One JSON object; see the README for its fields."""
    content = {
        "schema": SCHEMA,
        "checked": checked,
        "findings": [finding.fields() for finding in findings],
    }
    return json.dumps(content, indent=2, ensure_ascii=False)


def _remedy(finding: Finding, command: str) -> str:
    label = finding.written if finding.label else ""
    verb = "add" if finding.adds else "remove"
    edit = f"{verb} {label} {'to' if finding.adds else 'from'} {finding.attribute}"
    if finding.fixable:
        return f"{edit}: {command} deps fix {finding.call}"
    return f"{edit} by hand: {finding.by_hand}" if label else f"by hand: {finding.by_hand}"


def _targets(finding: Finding) -> str:
    others = [label for label in finding.targets if label != finding.call]
    if not others:
        return ""
    names = [label.partition(":")[2] for label in others[:_SHOWN_TARGETS]]
    more = len(others) - len(names)
    return f" ({', '.join(names)}{f' and {more} more' if more else ''})"


def _total(findings: Sequence[Finding], command: str) -> str:
    fixable = sum(finding.fixable for finding in findings)
    calls = len({finding.call for finding in findings})
    total = f"{counted(len(findings), 'finding')} in {counted(calls, 'declaration')}"
    if not fixable:
        return f"{total}, all to be mended by hand."
    rest = len(findings) - fixable
    left = f"; the other {rest} by hand" if rest else ""
    return f"{total}. `{command} deps fix` mends {fixable}{left}."
