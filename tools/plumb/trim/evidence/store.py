"""What was measured of tests: the lines that each runs, and the planted faults that it kills."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.plumb.errors import PlumbError
from tools.plumb.streams import write_file
from tools.plumb.trim.evidence.lines import numbers, ranges

SCHEMA = 1
Lines = Mapping[str, frozenset[int]]


@dataclass(frozen=True)
class Recorded:
    """Of one test target.

    contexts: each test function to the lines that it ran, by path. What ran before any test, such
    as an import, is under "". planted: faults that it was tried on; killed: those that it found.
    """

    contexts: Mapping[str, Lines] = field(default_factory=dict)
    planted: frozenset[str] = frozenset()
    killed: frozenset[str] = frozenset()

    @property
    def lines(self) -> dict[str, set[int]]:
        """Path to the lines that any of its test functions ran, imports included."""
        found: dict[str, set[int]] = {}
        for lines in self.contexts.values():
            for path, numbers_ in lines.items():
                found.setdefault(path, set()).update(numbers_)
        return found


@dataclass(frozen=True)
class Evidence:
    """tests: label to what was recorded. files: path to the sha256 of what was run."""

    tests: Mapping[str, Recorded]
    files: Mapping[str, str]


def write(evidence: Evidence, path: Path) -> None:
    """Writes the evidence as JSON."""
    tests = {
        label: {
            "contexts": {
                context: {name: ranges(lines) for name, lines in sorted(paths.items())}
                for context, paths in sorted(recorded.contexts.items())
            },
            "planted": sorted(recorded.planted),
            "killed": sorted(recorded.killed),
        }
        for label, recorded in sorted(evidence.tests.items())
    }
    content = {"schema": SCHEMA, "files": dict(sorted(evidence.files.items())), "tests": tests}
    write_file(path, json.dumps(content, indent=1) + "\n")


def read(path: Path) -> Evidence:
    """The evidence that `write` wrote. Raises PlumbError naming what is wrong with the file."""
    again = "write it anew with `plumb trim evidence record`"
    try:
        content = json.loads(path.read_bytes())
        if content["schema"] != SCHEMA:
            raise PlumbError(f"{path} has schema {content['schema']!r}, wanted {SCHEMA}: {again}.")
        tests = {label: _recorded(entry) for label, entry in content["tests"].items()}
        return Evidence(tests, dict(content["files"]))
    except OSError as error:
        raise PlumbError(f"cannot read evidence from {path}: {error.strerror}; {again}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlumbError(f"{path} holds no evidence ({error!r}): {again}.") from error


def _recorded(entry: Mapping[str, Any]) -> Recorded:
    return Recorded(
        {
            context: {name: frozenset(numbers(texts)) for name, texts in paths.items()}
            for context, paths in entry["contexts"].items()
        },
        frozenset(entry["planted"]),
        frozenset(entry["killed"]),
    )
