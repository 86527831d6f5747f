"""What is wrong with tensors, said so that a person can read it, however many they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Tensors whose names differ in numbers alone are named one by one up to this many.
IN_FULL = 10
_RUNS = 4
_NUMBER = re.compile(r"(?<=\.)[0-9]{1,9}(?=\.)")


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a tensor.

    Attributes:
        name: of the tensor.
        kind: what is wrong, the same words for all tensors in which the same is.
        sentence: of this tensor.
    """

    name: str
    kind: str
    sentence: str


def sentences(findings: Iterable[Finding]) -> list[str]:
    """One for each finding, or for all of a kind whose names differ in their numbers alone.

    "14848 tensors, 'model.layers.3-60.mlp.experts.0-255.up_proj.weight', are missing"
    """
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((_NUMBER.sub("N", finding.name), finding.kind), []).append(finding)
    said = []
    for (_, kind), same in alike.items():
        if len(same) <= IN_FULL:
            said += [finding.sentence for finding in same]
            continue
        first = "" if same[0].sentence == _sentence(same[0]) else f": {same[0].sentence}"
        pattern = folded([finding.name for finding in same])
        said.append(f"{len(same)} tensors, '{pattern}', are {kind}{first}")
    return said


def plain(name: str, kind: str) -> Finding:
    """A finding of which there is no more to say than its kind."""
    return Finding(name, kind, f"'{name}' is {kind}")


def folded(names: Sequence[str]) -> str:
    """Names that differ in their numbers alone -> one, with the range of each number."""
    numbers = [[int(found) for found in _NUMBER.findall(name)] for name in names]
    ranges = iter([_runs(sorted(set(column))) for column in zip(*numbers, strict=True)])
    return _NUMBER.sub(lambda _: next(ranges), names[0])


def _sentence(finding: Finding) -> str:
    return plain(finding.name, finding.kind).sentence


def _runs(numbers: Sequence[int]) -> str:
    """0, 1, 2, 5 -> "0-2,5"; of many runs the first ones, and the last number."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    spelled = ["-".join(map(str, run)) for run in runs]
    if len(spelled) > _RUNS:
        spelled = [*spelled[: _RUNS - 1], f"…,{numbers[-1]}"]
    return ",".join(spelled)
