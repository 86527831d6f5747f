"""Reads the pools of pool.toml: how many hosts and slots each has, and what a test costs there.

One file serves `plumb plan` and `plumb pool`: what only the other one needs is checked by both.
"""

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
    "gpus": (list,),
    "slots_per_gpu": (int,),
    "simulated": (bool,),
    "env": (dict,),
}
# What only `plumb pool` needs.
_OF_MACHINE = ("gpus", "slots_per_gpu", "simulated", "env")
_LEAST = {"hosts": 1, "slots": 1, "start_seconds": 0, "saved_seconds": 0}
_MOST_PER_GPU = 64
"""A CUDA context alone takes half a gigabyte."""
_MOST_SLOTS = 10_000
"""Of all hosts of a pool: each is a line of the plan, and no suite has as many tests."""
_MOST = {
    "hosts": _MOST_SLOTS,
    "slots": _MOST_SLOTS,
    "start_seconds": 1_000_000,
    "saved_seconds": 1_000_000,
}


def read(path: Path) -> dict[str, Pool]:
    """The pools by name, as a plan needs them.

    Raises PlumbError naming the entry that is wrong and what is wanted.
    """
    return {name: planned(entry) for name, entry in entries(path, content_of(path)).items()}


def planned(entry: Mapping[str, Any]) -> Pool:
    """An entry without what only the machine of its workers needs to know."""
    return Pool(**{name: value for name, value in entry.items() if name not in _OF_MACHINE})


def content_of(path: Path) -> dict[str, Any]:
    """The file's tables. Raises PlumbError if it cannot be read or is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise PlumbError(
            f"cannot read {path}: {error.strerror}. An entry is [[pool]] with name and hosts.",
            ExitCode.ENVIRONMENT,
        ) from error
    # TOMLDecodeError is a ValueError, as is that of a number with too many digits.
    except (ValueError, RecursionError) as error:
        raise PlumbError(f"{path} is no TOML: {error}.") from error


def entries(path: Path, content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The checked [[pool]] entries by name; `slots` follows from `gpus` where it is not said.

    Raises PlumbError naming the entry that is wrong and what is wanted.
    """
    found = content.get("pool")
    if not isinstance(found, list) or not found:
        raise PlumbError(f"{path} holds no [[pool]]: add one with name, hosts and slots.")
    pools: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(found, 1):
        _check(path, number, entry)
        if entry["name"] in pools:
            raise PlumbError(
                f"{path}: pool {number} is named '{entry['name']}', as another before."
            )
        pools[entry["name"]] = (
            {"slots": _slots_of_gpus(entry)} | entry if "gpus" in entry else entry
        )
    return pools


def _slots_of_gpus(entry: Mapping[str, Any]) -> int:
    return len(entry["gpus"]) * int(entry.get("slots_per_gpu", 1))


def _check(path: Path, number: int, entry: Mapping[str, Any]) -> None:
    if not isinstance(entry, dict):
        raise PlumbError(
            f"{path}: pool {number} is {shown(entry)}, wanted [[pool]] with name and hosts."
        )
    for name, value in entry.items():
        kinds = _KINDS.get(name)
        if kinds is None:
            near = difflib.get_close_matches(name, _KINDS, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"use {', '.join(_KINDS)}."
            raise PlumbError(f"{path}: pool {number} has '{name}', which means nothing: {hint}")
        if not isinstance(value, kinds) or isinstance(value, bool) != (kinds == (bool,)):
            raise PlumbError(
                f"{path}: pool {number} has {name} = {shown(value)}, wanted {_word(kinds)}."
            )
        if name in _OF_MACHINE:
            _check_of_machine(f"{path}: pool {number}", name, value)
            continue
        if isinstance(value, int | float) and not value >= _LEAST[name]:
            raise PlumbError(
                f"{path}: pool {number} has {name} = {shown(value)}, wanted at least "
                f"{_LEAST[name]}."
            )
        if isinstance(value, int | float) and value > _MOST.get(name, math.inf):
            raise PlumbError(
                f"{path}: pool {number} has {name} = {shown(value)}, wanted at most {_MOST[name]}."
            )
    if not entry.get("name"):
        raise PlumbError(f"{path}: pool {number} has no name: write the one that tests name.")
    pool = planned(entry)
    if pool.hosts * pool.slots > _MOST_SLOTS:
        raise PlumbError(
            f"{path}: pool {number} has {pool.hosts} hosts of {pool.slots} slots, wanted at most "
            f"{_MOST_SLOTS} slots in all: no more are of use than there are tests."
        )
    if "gpus" in entry and "slots" in entry and pool.slots != _slots_of_gpus(entry):
        raise PlumbError(
            f"{path}: pool {number} has slots = {pool.slots} and {len(entry['gpus'])} gpus: a slot "
            "has one GPU; leave slots out, and say slots_per_gpu where tests may share one."
        )
    if "slots_per_gpu" in entry and "gpus" not in entry:
        raise PlumbError(
            f"{path}: pool {number} has slots_per_gpu and no gpus: add their numbers, as [0, 1]."
        )


def _check_of_machine(where: str, name: str, value: Any) -> None:
    if name == "gpus":
        right = value and all(type(gpu) is int and gpu >= 0 for gpu in value)
        if not right or len({*value}) < len(value):
            raise PlumbError(
                f"{where} has gpus = {shown(value)}, wanted their numbers, each once, as [0, 1]."
            )
    if name == "slots_per_gpu" and not 1 <= value <= _MOST_PER_GPU:
        raise PlumbError(
            f"{where} has slots_per_gpu = {shown(value)}, wanted 1 to {_MOST_PER_GPU}: how many "
            "tests may share a GPU."
        )
    if name == "env":
        for variable, text in value.items():
            if not isinstance(text, str):
                raise PlumbError(f"{where} has env.{variable} = {shown(text)}, wanted a text.")


def shown(value: object) -> str:
    """A value as an error shows it: its beginning, if it is long."""
    try:
        return f"{value!r:.40}"
    except ValueError:
        # Python writes no number of thousands of digits; TOML reads one in hexadecimal.
        return "a number of thousands of digits"


def _word(kinds: tuple[type, ...]) -> str:
    words = {
        str: "a text",
        int: "a whole number",
        list: "a list",
        bool: "true or false",
        dict: "a table",
    }
    return words.get(kinds[0] if len(kinds) == 1 else float, "a number")
