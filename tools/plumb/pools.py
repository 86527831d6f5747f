"""Reads from a test's tags where it runs, and finds which GPUs this machine has."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass

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
    """Architecture, such as 'sm90', to the number of its cards here, as nvidia-smi says."""
    if shutil.which("nvidia-smi") is None:
        return {}
    try:
        result = subprocess.run(
            ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return count_cards(result.stdout) if result.returncode == 0 else {}


def count_cards(capabilities: str) -> dict[str, int]:
    """Counts cards in nvidia-smi's list of compute capabilities, one such as '9.0' a line."""
    found: dict[str, int] = {}
    for line in capabilities.splitlines():
        version = re.fullmatch(r"\s*(\d+)\.(\d+)\s*", line)
        if version:
            arch = f"sm{version[1]}{version[2]}"
            found[arch] = found.get(arch, 0) + 1
    return found


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
