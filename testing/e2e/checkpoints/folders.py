"""Where the tiny checkpoints lie, and what they were measured to achieve."""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from testing.e2e.checkpoints.encode import METHODS
from testing.e2e.checkpoints.quantise import quantise

BASES = ("dense", "gpt_oss", "mla_moe_mtp")
CHECKPOINTS = (
    *("dense", *(f"dense_{method}" for method in METHODS)),
    *("gpt_oss", "gpt_oss_mxfp4"),
    *("mla_moe_mtp", *(f"mla_moe_mtp_{method}" for method in METHODS)),
)
"""All of them: bases, and the variants of each."""

_HERE = Path(__file__).parent


def folder(name: str) -> Path:
    """The Hugging Face folder of a base, such as "dense", or of a variant: "dense_int8_block".

    Bazel has written variants beside this file; without it one is written into a temporary folder,
    once a process, which goes with it.

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
    scratch = tempfile.mkdtemp(prefix="tiny-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    target = Path(scratch) / name
    quantise(_HERE / base, method, target)
    return target


def measured(name: str) -> dict[str, Any]:
    """What tools/tiny/measure.py wrote of a base or variant into accuracy.json.

    Raises:
        KeyError: it was not measured.
    """
    found: dict[str, Any] = json.loads((_HERE / "accuracy.json").read_text())[name]
    return found


def digests(name: str) -> dict[str, str]:
    """SHA-256 of the committed files that a base, or the base of a variant, is computed from."""
    place = _HERE / split(name)[0]
    return {
        file: hashlib.sha256((place / file).read_bytes()).hexdigest()
        for file in ("model.safetensors", "calibration.json")
    }
