"""The change that is asked about: tests to drop, to merge and to add, resolved to labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tools.plumb.cells.model import Model, Test
from tools.plumb.cells.names import nearest
from tools.plumb.errors import PlumbError
from tools.plumb.graph import canonical


@dataclass(frozen=True)
class Merge:
    """Tests that become one: the first's name stands, with the claims of all.

    seconds: of the merged test; None: as long as the longest of them.
    """

    labels: tuple[str, ...]
    seconds: int | None = None


@dataclass(frozen=True)
class Change:
    """drop, add: labels. An added test stands in the workspace, and is counted as new."""

    drop: tuple[str, ...] = ()
    merges: tuple[Merge, ...] = ()
    add: tuple[str, ...] = ()

    @property
    def goes(self) -> tuple[str, ...]:
        """Labels of the tests that are gone afterwards."""
        return (*self.drop, *(label for merge in self.merges for label in merge.labels[1:]))


class Labels:
    """Finds the tests that a user means: a label, a suite, //pkg:all or //pkg/..."""

    def __init__(self, tests: Iterable[str], suites: Mapping[str, Sequence[str]]) -> None:
        self._tests = set(tests)
        self._suites = suites

    def resolve(self, named: str) -> list[str]:
        """The tests, sorted. Raises PlumbError with the nearest names if there is none."""
        label = canonical(named.strip())
        if label in self._tests:
            return [label]
        if label in self._suites:
            found = sorted(self._tests & set(self._suites[label]))
        elif label.endswith("/...") or label.endswith("/...:..."):
            folder = label.partition("...")[0].rstrip("/")
            found = sorted(t for t in self._tests if _in_folder(t, folder))
        elif label.endswith(":all"):
            package = label.removesuffix("all")
            found = sorted(t for t in self._tests if t.startswith(package))
        else:
            hint = nearest(label, {*self._tests, *self._suites})
            raise PlumbError(f"there is no test '{named}'; {hint}")
        if not found:
            raise PlumbError(f"'{named}' names no test; name one, or drop the argument.")
        return found

    def one(self, named: str) -> str:
        """The single test that is meant. Raises PlumbError if there are several."""
        found = self.resolve(named)
        if len(found) > 1:
            listed = ", ".join(found[:4])
            raise PlumbError(f"'{named}' names {len(found)} tests; name one of {listed}.")
        return found[0]


def resolve(
    labels: Labels, drop: Sequence[str], merge: Sequence[str], add: Sequence[str]
) -> Change:
    """The change that the options name.

    merge: `A+B`, or `A+B=SECONDS`. Raises PlumbError for unknown tests, for one that is in two
    parts of the change, and for a merge that is none.
    """
    change = Change(
        tuple(dict.fromkeys(label for named in drop for label in labels.resolve(named))),
        tuple(_merge(labels, named) for named in merge),
        tuple(dict.fromkeys(label for named in add for label in labels.resolve(named))),
    )
    used: dict[str, str] = {}
    parts = [("--drop", change.drop), ("--add", change.add)]
    parts += [("--merge", merge.labels) for merge in change.merges]
    for option, members in parts:
        for label in members:
            if label in used:
                raise PlumbError(
                    f"{label} is in {used[label]} and in {option}: name it once, since it can "
                    "only become one thing."
                )
            used[label] = option
    return change


def _merge(labels: Labels, named: str) -> Merge:
    text, equals, seconds = named.rpartition("=")
    whole = seconds.isascii() and seconds.isdigit() and len(seconds) < 10
    if equals and not (whole and int(seconds)):
        raise PlumbError(f"--merge {named}: after = wanted whole seconds of 1 or more.")
    parts = (text if equals else named).split("+")
    if len(parts) < 2 or not all(part.strip() for part in parts):
        raise PlumbError(f"--merge {named}: wanted A+B, the labels of two tests or more.")
    found = tuple(labels.one(part) for part in parts)
    if len(set(found)) < len(found):
        raise PlumbError(f"--merge {named}: a test cannot be merged with itself.")
    return Merge(found, int(seconds) if equals else None)


def before_and_after(model: Model, change: Change) -> tuple[Model, Model]:
    """The model without what is added, and the one after the change.

    Raises PlumbError for a merge of tests that do not run at the same place.
    """
    before = model.without(change.add)
    merged = [merged_test(model, merge) for merge in change.merges]
    after = model.without(change.goes)
    tests = {**after.tests, **{test.label: test for test in merged}}
    return before, replace(after, tests=tests)


def merged_test(model: Model, merge: Merge) -> Test:
    """The one test that the merged ones become."""
    tests = [model.tests[label] for label in merge.labels]
    first = tests[0]
    for name in ("pool", "gpus", "cadence", "level"):
        seen = {test.label: getattr(test, name) for test in tests}
        if len(set(seen.values())) > 1:
            listed = ", ".join(f"{label} {value}" for label, value in seen.items())
            raise PlumbError(
                f"--merge {'+'.join(merge.labels)}: they differ in {name} ({listed}), so that no "
                "one test can stand for them; merge tests of one pool, cadence and level."
            )
    seconds = [test.seconds for test in tests if test.seconds is not None]
    longest = max(seconds) if len(seconds) == len(tests) else None
    return replace(
        first,
        seconds=longest if merge.seconds is None else merge.seconds,
        covers=tuple(dict.fromkeys(claim for test in tests for claim in test.covers)),
        srcs=tuple(dict.fromkeys(src for test in tests for src in test.srcs)),
        skipped_on={arch: why for test in tests for arch, why in test.skipped_on.items()},
        idle=next((test.idle for test in tests if test.idle is not None), None),
    )


def _in_folder(label: str, folder: str) -> bool:
    return folder == "" or label.startswith((f"{folder}/", f"{folder}:"))
