"""Answers --why: finds the target that the user means, and says why it is affected or is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.plumb.compare import affected
from tools.plumb.compare.affected import Comparison
from tools.plumb.errors import PlumbError
from tools.plumb.graph import Target, canonical


def explain(
    comparison: Comparison, name: str, known: Mapping[str, Target], folder: str = ""
) -> dict[str, Any]:
    """The JSON field `why` for the target called `name`.

    known: targets of the head. folder: where the user is, from the workspace's root; "" is there.
    Raises PlumbError with near names for a target that is not there.
    """
    label = resolve(name, known, folder)
    fields = {
        "target": label,
        "affected": True,
        "text": "",
        "file": None,
        "chain": [label],
        "changes": [],
    }
    tracer = comparison.tracer
    if label in comparison.unchanged:
        return fields | {"affected": False, "text": "what it reads comes out the same"}
    if tracer is not None and tracer.changed(label):
        chain = tracer.chain(label)
        text = affected.describe(chain, comparison.changed)
        if chain.new and chain.labels == [label] and chain.file is None:
            text = "new test" if known[label].is_test else "new target"
        return fields | {
            "text": text,
            "file": chain.file,
            "chain": chain.labels,
            "changes": [vars(change) for change in chain.changes],
        }
    if comparison.everything:
        return fields | {"text": comparison.everything[0]}
    if any(t.label == label for t in comparison.tests):
        return fields | {"text": next(t.because for t in comparison.tests if t.label == label)}
    return fields | {"affected": False, "text": "nothing that it depends on differs"}


def resolve(name: str, known: Mapping[str, Target], folder: str = "") -> str:
    """The label in `known` that `name` means, said from `folder`: a label or a file's path.

    Raises PlumbError with near names if there is none.
    """
    spellings = list(_spellings(name, folder))
    for label in spellings:
        if label in known:
            return label
    near = affected.nearest(spellings[0], known)
    raise PlumbError(
        f"there is no target {spellings[0]} in the head."
        + (f" Did you mean {' or '.join(near)}?" if near else "")
    )


def _spellings(name: str, folder: str) -> Iterator[str]:
    """Labels that `name` may stand for, as Bazel reads them first."""
    if name.startswith(("//", "@")):
        yield canonical(name)
        return
    if name.startswith(":"):
        yield f"//{folder}{name}"
        return
    for start in dict.fromkeys((folder, "")):
        path = f"{start}/{name}".lstrip("/")
        yield canonical(f"//{path}")
        # A file's label is cut at its package, which may be any folder above it.
        parts = path.split("/")
        for n in range(len(parts) - 1, -1, -1):
            yield f"//{'/'.join(parts[:n])}:{'/'.join(parts[n:])}"
