"""Which part of the matrix is asked for: by claim, test, pool, package and suite.

A filter takes away rows, columns and tests from what is shown. Whether a cell is covered is always
judged by every test of the workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tools.plumb.cells.model import Cell, Model, Test
from tools.plumb.cells.names import matching, nearest
from tools.plumb.errors import PlumbError


@dataclass(frozen=True)
class Wanted:
    """What the user asks for; a filter without values takes everything.

    claims, tests, suites: globs of names; tests are labels, or what follows their colon.
    pools: names. packages: '//a/b' is that package, '//a/b/...' all below it too.
    """

    claims: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()


@dataclass(frozen=True)
class Selection:
    """Cells and tests that are shown, both sorted; covering tests are also among `tests`."""

    cells: tuple[Cell, ...]
    tests: tuple[Test, ...]


def select(model: Model, wanted: Wanted) -> Selection:
    """The cells and tests that `wanted` takes.

    Raises PlumbError if a filter takes nothing, or if all of them together do.
    """
    if not model.tests:
        raise PlumbError(
            "the workspace has no tests, so nothing is covered; is it the right one? "
            "Name another with --workspace."
        )
    if not model.claims:
        raise PlumbError(
            "no test covers a claim: tag tests covers:CLAIM, as the macros of testing/defs.bzl do."
        )
    claims = _claims(model, wanted.claims)
    tests = _tests(model, wanted)
    archs = _archs(model, wanted.pools)
    narrow = wanted.tests or wanted.packages or wanted.suites
    cells = [
        cell
        for cell in model.cells
        if cell.claim in claims
        and (archs is None or cell.arch in archs)
        and (not narrow or _touches(model, cell, tests))
    ]
    if not cells:
        raise PlumbError(
            "no cell is left: the filters together take no claim and no test that covers it. "
            "Leave one of them out."
        )
    shown = [test for test in tests if claims & set(test.covers)]
    return Selection(tuple(cells), tuple(sorted(shown, key=lambda test: test.label)))


def _touches(model: Model, cell: Cell, tests: Sequence[Test]) -> bool:
    """True if one of the tests covers the cell, or comes near and nothing covers it."""
    naming = [test for test in tests if cell.claim in test.covers]
    return any(model.covers(test, cell) for test in naming) or (
        bool(naming) and not model.covering(cell)
    )


def _claims(model: Model, patterns: Sequence[str]) -> set[str]:
    return _taken("claim", patterns, model.claims) if patterns else set(model.claims)


def _archs(model: Model, pools: Sequence[str]) -> set[str] | None:
    if not pools:
        return None
    return {test.arch for test in model.tests.values() if test.pool in pools}


def _tests(model: Model, wanted: Wanted) -> list[Test]:
    tests = list(model.tests.values())
    if wanted.tests:
        labels = _taken("test", wanted.tests, model.tests, short=_short_names(model.tests))
        tests = [test for test in tests if test.label in labels]
    if wanted.pools:
        known = {test.pool for test in model.tests.values()}
        chosen = {_known("pool", pool, known) for pool in wanted.pools}
        tests = [test for test in tests if test.pool in chosen]
    if wanted.suites:
        suites = {test.suite for test in model.tests.values() if test.suite}
        chosen = _taken("suite", wanted.suites, suites)
        tests = [test for test in tests if test.suite in chosen]
    if wanted.packages:
        takes = [_package(model, pattern) for pattern in wanted.packages]
        tests = [test for test in tests if any(take(test.package) for take in takes)]
    return tests


def _short_names(labels: Iterable[str]) -> dict[str, str]:
    return {label: label.rpartition(":")[2] for label in labels}


def _taken(
    what: str,
    patterns: Sequence[str],
    names: Iterable[str],
    short: dict[str, str] | None = None,
) -> set[str]:
    """The names that the patterns take. short: name to what may stand for it."""
    known, found = list(names), set()
    for pattern in patterns:
        taken = set(matching(pattern, known))
        if short and not taken and "/" not in pattern:
            taken = {name for name, own in short.items() if matching(pattern, [own])}
        if not taken:
            raise PlumbError(f"no {what} matches '{pattern}': {nearest(pattern, known)}")
        found |= taken
    return found


def _known(what: str, name: str, names: set[str]) -> str:
    if name not in names:
        raise PlumbError(f"no test runs in {what} '{name}': {nearest(name, names)}")
    return name


def _package(model: Model, pattern: str) -> Callable[[str], bool]:
    path = pattern.removeprefix("//")
    deep = path == "..." or path.endswith("/...")
    path = path.removesuffix("...").removesuffix("/").removesuffix(":all")

    def takes(package: str) -> bool:
        return package == path or (deep and (not path or package.startswith(f"{path}/")))

    packages = {test.package for test in model.tests.values()}
    if not any(takes(package) for package in packages):
        known = [f"//{package}" for package in packages]
        raise PlumbError(f"no test is in package '{pattern}': {nearest(f'//{path}', known)}")
    return takes
