"""What contradicts itself in the declarations: tags by hand, claims without sentence, empty suites.

A macro that refuses these while a BUILD file loads is better; a workspace may lack one, and tags
may be written past it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from tools.plumb.cells.model import CADENCES, LEVELS, Claim, Test
from tools.plumb.cells.names import nearest
from tools.plumb.cells.suites import SUITE, members
from tools.plumb.cells.tags import NO_MACHINE, SINGLE, is_skip, values
from tools.plumb.graph import Graph, Target


def of_claims(claims: Mapping[str, Claim], archs: Collection[str]) -> list[str]:
    """What is wrong with registered claims. archs: architectures that tests run on."""
    found = []
    for claim in claims.values():
        said = f"claim {claim.name} ({claim.label})"
        if not claim.sentence:
            found.append(f"{said} has no sentence: write what a test of it vouches for")
        if claim.level is None:
            found.append(f"{said} has no level: write one of {', '.join(LEVELS)}")
        elif claim.level not in LEVELS:
            found.append(f"{said} has level {claim.level!r}: {nearest(claim.level, LEVELS)}")
        if not claim.demands:
            found.append(f"{said} demands nothing: write demands such as cpu:per-commit")
        for arch, cadence in claim.demands:
            if cadence not in CADENCES:
                found.append(
                    f"{said} demands '{arch}:{cadence}', wanted ARCH:CADENCE: "
                    f"{nearest(cadence, CADENCES)}"
                )
            elif not arch:
                found.append(
                    f"{said} demands ':{cadence}', wanted ARCH:CADENCE: name one of "
                    f"{', '.join(sorted(archs))}"
                )
    return found


def of_test(target: Target, test: Test, claims: Mapping[str, Claim]) -> list[str]:
    """What is wrong with the tags of a test. claims: registered ones; empty if none are."""
    tags = target.tags
    found = _single_values(tags) + _contradictions(tags, test)
    covers = values(tags, "covers")
    if "" in covers:
        found.append("tag 'covers:' names no claim")
    if covers:
        found += _covering(test, claims)
    return [f"{test.label}: {text}" for text in found]


def of_suites(graph: Graph, tests: Mapping[str, Test]) -> list[str]:
    """Suites in which no test runs: Bazel would call them a success."""
    found = []
    for label, target in sorted(graph.targets.items()):
        if target.rule_class != SUITE or target.is_manual:
            continue
        inside = members(graph, label)
        if not any(_counts(graph.targets[name], tests[name]) for name in inside & tests.keys()):
            what = "tests that never run" if inside & tests.keys() else "no test at all"
            found.append(f"suite {label} holds {what}, and would pass: add one, or delete it")
    return found


def _single_values(tags: tuple[str, ...]) -> list[str]:
    found = []
    for key in SINGLE:
        said = list(dict.fromkeys(values(tags, key)))
        if len(said) > 1:
            listed = " and ".join(f"'{key}:{value}'" for value in said)
            found.append(f"tags {listed} contradict each other: keep one")
    for key, known in (("cadence", CADENCES), ("level", LEVELS)):
        for value in values(tags, key):
            if value not in known:
                found.append(f"unknown {key} '{value}': {nearest(value, known)}")
    for key in ("gpus", "seconds"):
        for value in values(tags, key):
            number = re.fullmatch(r"[0-9]{1,9}", value)
            if not number or (key == "seconds" and not int(value)):
                short = value if len(value) < 30 else f"{value[:30]}…"
                found.append(f"tag '{key}:{short}': wanted a whole number from 1 to 999999999")
    return found


def _contradictions(tags: tuple[str, ...], test: Test) -> list[str]:
    found = []
    if "gpu" in tags and "cpu" in tags:
        found.append("tags 'cpu' and 'gpu' contradict each other: keep one")
    slots = [value for value in values(tags, "resources") if value.startswith("gpu:")]
    for value in slots:
        if value != f"gpu:{test.gpus}":
            found.append(f"tag 'resources:{value}' contradicts {test.gpus} GPUs: keep one number")
    for value in values(tags, "suite"):
        often = next((one for one in CADENCES if value.startswith(f"{one}-")), test.cadence)
        if often != test.cadence:
            found.append(
                f"tag 'suite:{value}' contradicts cadence {test.cadence}: keep one of them"
            )
    for value in values(tags, "skipped_on"):
        if not is_skip(f"skipped_on:{value}"):
            found.append(f"tag 'skipped_on:{value}': wanted skipped_on:ARCH (why), as for sm100")
    if test.gpus and "cpu" in tags:
        found.append(f"tag 'cpu' contradicts {test.gpus} GPUs: drop one")
    return found


def _covering(test: Test, claims: Mapping[str, Claim]) -> list[str]:
    found = []
    if test.seconds is None:
        found.append("covers claims and declares no seconds: add a tag seconds:N, as measured")
    for name in test.covers if claims else ():
        claim = claims.get(name)
        if claim is None:
            found.append(f"covers unregistered claim '{name}': {nearest(name, claims)}")
        elif test.level is None:
            found.append(
                f"covers {name} and declares no level: add level:{claim.level}, if it is one"
            )
        elif claim.level is not None and claim.level != test.level:
            found.append(
                f"is of level {test.level}, and claim {name} needs {claim.level}: it covers nothing"
                " of it; name a claim of its own level"
            )
    return list(dict.fromkeys(found))


def _counts(target: Target, test: Test) -> bool:
    # A pool without a machine is known of, and filtered by its tag; a test that skips itself where
    # it runs says so in its declaration and its log: nothing passes unseen.
    return test.idle is None or NO_MACHINE in target.tags
