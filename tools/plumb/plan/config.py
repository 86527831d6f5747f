"""Reads pool.toml: how many hosts a pool has, and what a test costs there beside its seconds."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.plan.job import Pool

_KINDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "hosts": (int,),
    "slots": (int,),
    "start_seconds": (int, float),
    "saved_seconds": (int, float),
}
_LEAST = {"hosts": 1, "slots": 1, "start_seconds": 0, "saved_seconds": 0}
_MOST_SLOTS = 10_000
"""Of all hosts of a pool: each is a line of the plan, and no suite has as many tests."""
_MOST = {
    "hosts": _MOST_SLOTS,
    "slots": _MOST_SLOTS,
    "start_seconds": 1_000_000,
    "saved_seconds": 1_000_000,
}


def read(path: Path) -> dict[str, Pool]:
    """The pools by name.

    Raises PlumbError naming the entry that is wrong and what is wanted.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlumbError(
            f"cannot read {path}: {error.strerror}. An entry is [[pool]] with name and hosts.",
            ExitCode.ENVIRONMENT,
        ) from error
    # TOMLDecodeError is a ValueError, as is that of a number with too many digits.
    except (ValueError, RecursionError) as error:
        raise PlumbError(f"{path} is no TOML: {error}.") from error
    entries = content.get("pool")
    if not isinstance(entries, list) or not entries:
        raise PlumbError(f"{path} holds no [[pool]]: add one with name, hosts and slots.")
    pools: dict[str, Pool] = {}
    for number, entry in enumerate(entries, 1):
        pool = _pool(path, number, entry)
        if pool.name in pools:
            raise PlumbError(f"{path}: pool {number} is named '{pool.name}', as another before.")
        pools[pool.name] = pool
    return pools


def _pool(path: Path, number: int, entry: Mapping[str, Any]) -> Pool:
    if not isinstance(entry, dict):
        raise PlumbError(
            f"{path}: pool {number} is {entry!r}, wanted [[pool]] with name and hosts."
        )
    for name, value in entry.items():
        kinds = _KINDS.get(name)
        if kinds is None:
            near = difflib.get_close_matches(name, _KINDS, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"use {', '.join(_KINDS)}."
            raise PlumbError(f"{path}: pool {number} has '{name}', which means nothing: {hint}")
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise PlumbError(
                f"{path}: pool {number} has {name} = {value!r}, wanted a {_word(kinds)}."
            )
        if isinstance(value, int | float) and not value >= _LEAST[name]:
            raise PlumbError(
                f"{path}: pool {number} has {name} = {value!r}, wanted at least {_LEAST[name]}."
            )
        if isinstance(value, int | float) and value > _MOST.get(name, math.inf):
            raise PlumbError(
                f"{path}: pool {number} has {name} = {value!r:.40}, wanted at most {_MOST[name]}."
            )
    if not entry.get("name"):
        raise PlumbError(f"{path}: pool {number} has no name: write the one that tests name.")
    pool = Pool(**entry)
    if pool.hosts * pool.slots > _MOST_SLOTS:
        raise PlumbError(
            f"{path}: pool {number} has {pool.hosts} hosts of {pool.slots} slots, wanted at most "
            f"{_MOST_SLOTS} slots in all: no more are of use than there are tests."
        )
    return pool


def _word(kinds: tuple[type, ...]) -> str:
    return {str: "text", int: "whole number"}.get(kinds[0] if len(kinds) == 1 else float, "number")
