"""Reads what tests left in Bazel's undeclared outputs under --config=evidence."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from coverage import CoverageData
from coverage.exceptions import CoverageException

from tools.plumb.errors import PlumbError
from tools.plumb.trim.evidence.judge import digest_of
from tools.plumb.trim.evidence.store import Evidence, Recorded

LINES, KILLS = "lines.coverage", "kills.jsonl"
# pytest-cov names a context after the test and its phase; parameters are one test's.
_PHASE = re.compile(r"(\[.*\])?(\|(run|setup|teardown))?$", re.DOTALL)
_RUNFILES = re.compile(r"^.*(?:\.runfiles|/execroot)/[^/]+/(?P<path>.*)$")


def gather(
    logs: Path,
    workspace: Path,
    labels: Iterable[str] | None = None,
    sources: Mapping[str, Iterable[str]] | None = None,
) -> Evidence:
    """What each test below `logs` (bazel-testlogs) recorded; of `labels` only, where given.

    sources: each test's own files, by label; what it proves holds while they are as they were.
    Raises PlumbError if none recorded anything, or if a record is damaged.
    """
    wanted = None if labels is None else set(labels)
    found: dict[str, list[Path]] = defaultdict(list)
    for name in (LINES, KILLS):
        for path in sorted(logs.rglob(name)):
            label = label_of(path, logs)
            if label is not None and (wanted is None or label in wanted):
                found[label].append(path)
    if not found:
        raise PlumbError(
            f"no test below {logs} recorded lines or faults: run it by `plumb trim evidence record`"
            ", or with --config=evidence."
        )
    tests = {label: _recorded(paths, workspace) for label, paths in sorted(found.items())}
    files = {path for recorded in tests.values() for path in recorded.lines}
    files |= {path for label in tests for path in (sources or {}).get(label, ())}
    return Evidence(tests, {path: _digest(workspace / path) for path in sorted(files)})


def label_of(path: Path, logs: Path) -> str | None:
    """Label of the test that wrote `path`, PACKAGE/NAME[/shard_1_of_2]/test.outputs/FILE."""
    parts = list(path.relative_to(logs).parts[:-1])
    if not parts or parts.pop() != "test.outputs":
        return None
    if parts and parts[-1].startswith(("shard_", "run_")):
        parts.pop()
    return f"//{'/'.join(parts[:-1])}:{parts[-1]}" if parts else None


def _recorded(paths: Iterable[Path], workspace: Path) -> Recorded:
    contexts: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    planted, killed = set(), set()
    for path in paths:
        if path.name == LINES:
            _read_lines(path, workspace, contexts)
        else:
            for fault, found in read_kills(path):
                planted.add(fault)
                killed |= {fault} if found else set()
    return Recorded(
        {
            context: {name: frozenset(lines) for name, lines in by_path.items()}
            for context, by_path in contexts.items()
        },
        frozenset(planted),
        frozenset(killed),
    )


def _read_lines(path: Path, workspace: Path, contexts: dict[str, dict[str, set[int]]]) -> None:
    data = CoverageData(basename=str(path))
    try:
        data.read()
        for file in data.measured_files():
            inside = inside_workspace(file, workspace)
            for line, named in data.contexts_by_lineno(file).items() if inside else ():
                # Line 0 is that an empty file was imported.
                for context in named if line else ():
                    contexts[_PHASE.sub("", context)][inside or ""].add(line)
    except CoverageException as error:
        raise PlumbError(f"{path} is damaged ({error}): run the test again.") from error


def inside_workspace(file: str, workspace: Path) -> str | None:
    """The path in the workspace of a file that ran in it, in its runfiles or in a sandbox."""
    path = Path(file)
    if path.is_relative_to(workspace):
        return path.relative_to(workspace).as_posix()
    match = _RUNFILES.match(file)
    return match["path"] if match else None


def read_kills(path: Path) -> list[tuple[str, bool]]:
    """(fault, whether it was found) of each line. Raises PlumbError for a line that is none."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            entry = json.loads(line)
            found.append((str(entry["fault"]), bool(entry["killed"])))
        except (ValueError, KeyError, TypeError) as error:
            raise PlumbError(
                f'{path}, line {number}: wanted {{"fault": …, "killed": …}}: run the test again.'
            ) from error
    return found


def _digest(path: Path) -> str:
    try:
        return digest_of(path.read_text(errors="replace"))
    except OSError:
        return ""
