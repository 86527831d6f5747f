"""Reads from a test's tags where it runs, and finds which GPUs this machine has."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

from testing.harness import gpu_slot
from tools.plumb.errors import PlumbError
from tools.plumb.graph import Target

CPU = "cpu"
# How often a test runs that does not say; and what stands for every cadence.
PER_COMMIT, ALL = "per-commit", "all"
MAPPING_PATH = "tools/plumb/pools.toml"
_PROPERTIES = ("test.Pool", "Pool")
_KINDS = {"name": str, "tags": list, "gpus": int, "arch": str}


@dataclass(frozen=True)
class PoolRule:
    """An entry of the mapping file: tests with all of `tags` run in the pool `name`.

    gpus: how many they take where they do not say. arch: such as 'sm90'; "" for none.
    """

    name: str
    tags: tuple[str, ...]
    gpus: int = 0
    arch: str = ""


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

    def runs_at(self, cadence: str) -> bool:
        """True if a run of that cadence, or of ALL, holds the test."""
        return cadence in (ALL, self.cadence or PER_COMMIT)


def parse(text: str) -> tuple[PoolRule, ...]:
    """The mapping in `text`. Raises PlumbError naming the entry that cannot be understood."""
    try:
        entries = tomllib.loads(text).get("pool", [])
        for number, entry in enumerate(entries, 1):
            _check(entry, number)
        return tuple(PoolRule(**{**entry, "tags": tuple(entry["tags"])}) for entry in entries)
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError) as error:
        raise PlumbError(
            f"{MAPPING_PATH} cannot be read: {error}. "
            "An entry is [[pool]] with name, tags and perhaps gpus and arch."
        ) from error


def _check(entry: dict[str, object], number: int) -> None:
    for name, value in entry.items():
        kind = _KINDS.get(name)
        if kind is None or not isinstance(value, kind):
            wanted = "name, tags, gpus or arch" if kind is None else f"a {kind.__name__}"
            raise PlumbError(
                f"{MAPPING_PATH}: entry {number} has {name} = {value!r}; use {wanted}."
            )


def placement(test: Target, rules: Sequence[PoolRule] = ()) -> Placement:
    """The placement that `test` declares, or that the first of `rules` that fits it gives.

    A test that names no pool and no GPU is a CPU test.
    """
    tags = test.tags
    rule = next((rule for rule in rules if {*rule.tags} <= {*tags}), None)
    fallback = rule.name if rule else ("gpu" if "gpu" in tags else CPU)
    pool = _declared_pool(test) or fallback
    gpus = _number(tags, "gpus:")
    if gpus is None:
        gpus = rule.gpus if rule else 0 if pool == CPU else 1
    arch = _text(tags, "sm:") or ((rule.arch or None) if rule else None)
    return Placement(pool, arch, gpus, _number(tags, "seconds:"), _text(tags, "cadence:"))


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
    return int(text) if text is not None and re.fullmatch(r"\d{1,9}", text, re.ASCII) else None
