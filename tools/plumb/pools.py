"""Reads from a test's tags where it runs, and finds which GPUs this machine has."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from testing.harness import gpu_slot
from tools.plumb.graph import Target

CPU = "cpu"
_PROPERTIES = ("test.Pool", "Pool")


@dataclass(frozen=True)
class Placement:
    """Where a test runs and what it takes.

    pool: as its execution properties name it; arch: such as 'sm90', None for a CPU test.
    gpus: 0 for a CPU test. seconds, cadence: None if the test does not say.
    """

    pool: str
    arch: str | None
    gpus: int
    seconds: int | None
    cadence: str | None


def placement(test: Target) -> Placement:
    """The placement that `test` declares; a test that names no pool and no GPU is a CPU test."""
    tags = test.tags
    pool = _declared_pool(test) or ("gpu" if "gpu" in tags else CPU)
    gpus = _number(tags, "gpus:")
    if gpus is None:
        gpus = 0 if pool == CPU else 1
    return Placement(
        pool, _text(tags, "sm:"), gpus, _number(tags, "seconds:"), _text(tags, "cadence:")
    )


def local_gpus() -> dict[str, int]:
    """Architecture, such as 'sm90', to the number of its cards that a test could take here."""
    cards = gpu_slot.machine_gpus()
    found = {
        arch: len(gpu_slot.candidates(cards, arch, os.environ)) for arch in {c.arch for c in cards}
    }
    return {arch: count for arch, count in sorted(found.items()) if count}


def _declared_pool(test: Target) -> str | None:
    properties = test.attributes.get("exec_properties")
    if not isinstance(properties, list):
        return None
    values = {entry["key"]: entry["value"] for entry in properties}
    return next((values[name] for name in _PROPERTIES if name in values), None)


def _text(tags: tuple[str, ...], prefix: str) -> str | None:
    return next((tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)), None)


def _number(tags: tuple[str, ...], prefix: str) -> int | None:
    text = _text(tags, prefix)
    return int(text) if text is not None and re.fullmatch(r"\d+", text, re.ASCII) else None
