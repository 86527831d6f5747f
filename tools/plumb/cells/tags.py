"""Reads a test's tags: what it covers, where, how often and for how long."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.plumb.cells.model import PER_COMMIT, Test
from tools.plumb.graph import Target, canonical, source_path
from tools.plumb.pools import CPU, PoolRule, placement

# One value each; what a test has many of is `covers:` and `skipped_on:`.
SINGLE = ("cadence", "gpus", "level", "seconds", "sm", "suite")
_SKIP = re.compile(r"skipped_on:(?P<arch>[^\s:(]+)\s*(?:\((?P<why>.*)\))?", re.DOTALL)
# A test of a pool of which no machine has run any test yet.
NO_MACHINE = "machine:none"
_DISABLED = re.compile(r"disabled(?::\s*(?P<why>.*))?", re.DOTALL)


def values(tags: Sequence[str], key: str) -> list[str]:
    """What follows `key:` in the tags, in their order."""
    return [tag.removeprefix(f"{key}:") for tag in tags if tag.startswith(f"{key}:")]


def is_skip(tag: str) -> bool:
    """True for `skipped_on:ARCH`, with or without a reason in brackets behind it."""
    return _SKIP.fullmatch(tag) is not None


def test_of(target: Target, rules: Sequence[PoolRule], is_run: bool) -> Test:
    """The test that a target declares.

    rules: as `tools.plumb.pools.placement` takes them. is_run: False if `bazel test //...` leaves
    it out.
    """
    place = placement(target, rules)
    tags = target.tags
    return Test(
        label=target.label,
        pool=place.pool,
        arch=place.arch or (CPU if place.gpus == 0 else place.pool),
        gpus=place.gpus,
        seconds=place.seconds,
        cadence=place.cadence or PER_COMMIT,
        suite=next(iter(values(tags, "suite")), None),
        level=next(iter(values(tags, "level")), None),
        covers=tuple(dict.fromkeys(claim for claim in values(tags, "covers") if claim)),
        skipped_on=_skips(tags),
        idle=_idle(tags, is_run, place.pool),
        srcs=_sources(target),
        place=_place(target),
    )


def _skips(tags: Sequence[str]) -> dict[str, str]:
    found = [match for tag in tags if (match := _SKIP.fullmatch(tag))]
    return {match["arch"]: match["why"] or "" for match in found}


def _idle(tags: Sequence[str], is_run: bool, pool: str) -> str | None:
    for tag in tags:
        match = _DISABLED.fullmatch(tag)
        if match:
            return f"disabled: {match['why']}" if match["why"] else "disabled"
    if not is_run:
        return "tagged manual"
    return f"pool {pool} has no machine yet" if NO_MACHINE in tags else None


def _sources(target: Target) -> tuple[str, ...]:
    value = target.attributes.get("srcs")
    if isinstance(value, list):
        labels = [canonical(label) for label in value if isinstance(label, str)]
    else:
        # A select() is kept as a dict: every branch's sources are among the deps.
        labels = [label for label in target.deps if (source_path(label) or "").endswith(".py")]
    # A runner that a macro adds to each test says nothing of this one.
    own = f"{target.label.partition(':')[0]}:"
    return tuple(label for label in labels if label.startswith(own)) or tuple(labels)


def _place(target: Target) -> str | None:
    location = target.attributes.get("generator_location")
    if not isinstance(location, str) or ":" not in location:
        return None
    path, line, *_ = location.split(":")
    return f"{path}:{line}"
