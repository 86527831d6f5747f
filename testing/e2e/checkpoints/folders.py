"""Where the tiny checkpoints lie, and what they were measured to achieve."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from testing.e2e.checkpoints.quantise import quantise

BASES = ("dense", "gpt_oss", "mla_moe_mtp")
_HERE = Path(__file__).parent


def folder(name: str) -> Path:
    """The Hugging Face folder of a base, such as "dense", or of a variant: "dense_int8_block".

    Bazel has written variants beside this file; without it one is written into a temporary folder,
    once a process.

    Raises:
        ValueError: no such base.
    """
    place = _HERE / name
    return place if (place / "config.json").exists() else _made(name)


def split(name: str) -> tuple[str, str]:
    """A variant's base and method; the method of a base is "".

    Raises:
        ValueError: no such base.
    """
    for base in BASES:
        if name == base or name.startswith(f"{base}_"):
            return base, name.removeprefix(base).removeprefix("_")
    raise ValueError(f"checkpoint '{name}' is unknown; bases are {', '.join(BASES)}")


@cache
def _made(name: str) -> Path:
    base, method = split(name)
    target = Path(tempfile.mkdtemp(prefix="tiny-")) / name
    quantise(_HERE / base, method, target)
    return target


def measured(name: str) -> dict[str, Any]:
    """What tools/tiny/measure.py wrote of a base or variant into accuracy.json.

    Raises:
        KeyError: it was not measured.
    """
    found: dict[str, Any] = json.loads((_HERE / "accuracy.json").read_text())[name]
    return found
