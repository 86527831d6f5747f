"""A large target graph in columns: a target is made when somebody asks for it.

An answer looks at a few of a hundred thousand targets; making all of them would take longer than
Bazel takes to load one package anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

from tools.plumb.graph import GENERATED, GROUP, RULE, SOURCE, Index, Target
from tools.plumb.stream.packed import Chunks, Packed

KINDS = (RULE, SOURCE, GENERATED, GROUP)
ROW_BYTES = 16
# Of a label that is no target.
ABSENT = 0xFFFFFFFF
# Of a target with no packed attributes.
NO_PLACE = (ABSENT, 0, 0)
_RULE, _SOURCE = KINDS.index(RULE), KINDS.index(SOURCE)
# A row as it is where nothing is known of it.
_NO_ROW = bytes(ROW_BYTES)


@dataclass
class Columns:
    """What is known of n targets and m labels, which are numbered from 0.

    labels: every label that is a target or a dep of one. of: n numbers, the label of each target.
    kinds, traits: n bytes. classes, known: n numbers of entries of class_names and tables.
    starts: n + 1 numbers, where in deps those of each target start; deps: numbers of labels.
    rows: n digests of ROW_BYTES. places: 3 n numbers, see Packed.
    users: m + 1 starts and the targets that depend on each label; None if nobody asked yet.
    """

    labels: list[str]
    of: array[int]
    kinds: bytes
    traits: bytes
    classes: array[int]
    known: array[int]
    starts: array[int]
    deps: array[int]
    class_names: list[str]
    tables: list[Mapping[str, Any]]
    rows: Callable[[], bytes]
    places: Callable[[], array[int]]
    chunks: Chunks
    users: tuple[array[int], array[int]] | None = None

    def by_label(self) -> tuple[array[int], array[int]]:
        """The targets that depend on each label: where those of a label start, and all of them."""
        if self.users is None:
            counts = [0] * (len(self.labels) + 1)
            for dep in self.deps:
                counts[dep + 1] += 1
            starts = array("I", accumulate(counts))
            at, found = starts.tolist(), array("I", bytes(4 * len(self.deps)))
            deps, bounds = self.deps.tolist(), self.starts.tolist()
            for target, (start, end) in enumerate(pairwise(bounds)):
                for dep in deps[start:end]:
                    found[at[dep]] = target
                    at[dep] += 1
            self.users = starts, found
        return self.users


class Lazy(Index):
    """The targets of `columns`, each made when it is asked for."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._made: dict[str, Target] = {}

    def __getitem__(self, label: str) -> Target:
        made = self._made
        if label not in made:
            made[label] = self._make(self._position(label))
        return made[label]

    def __contains__(self, label: object) -> bool:
        number = self._numbers.get(label)  # type: ignore[call-overload]
        return number is not None and self._positions[number] != ABSENT

    def __iter__(self) -> Iterator[str]:
        labels = self.columns.labels
        return (labels[number] for number in self.columns.of)

    def __len__(self) -> int:
        return len(self.columns.of)

    @cached_property
    def leaves(self) -> frozenset[str]:
        """As in Index."""
        absent = (n for n, position in enumerate(self._positions) if position == ABSENT)
        return frozenset(map(self.columns.labels.__getitem__, absent))

    def users(self, label: str) -> Iterable[str]:
        """As in Index."""
        number = self._numbers.get(label)
        if number is None:
            return ()
        starts, users = self.columns.by_label()
        of, labels = self.columns.of, self.columns.labels
        return (labels[of[user]] for user in users[starts[number] : starts[number + 1]])

    def of_class(self, wanted: Callable[[str], bool]) -> Iterator[str]:
        """As in Index."""
        columns = self.columns
        chosen = [wanted(name) for name in columns.class_names]
        if any(chosen):
            for kind, number, label in zip(columns.kinds, columns.classes, columns.of, strict=True):
                if chosen[number] and kind == _RULE:
                    yield columns.labels[label]

    def with_trait(self, trait: int) -> Iterator[str]:
        """As in Index."""
        columns = self.columns
        if any(value & trait for value in {*columns.traits}):
            for value, label in zip(columns.traits, columns.of, strict=True):
                if value & trait:
                    yield columns.labels[label]

    def said(self, label: str) -> Mapping[str, Any]:
        """As in Index."""
        return self.columns.tables[self.columns.known[self._position(label)]]

    def said_of(self, labels: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """As in Index."""
        tables, known = self.columns.tables, self.columns.known
        numbers, positions = self._numbers, self._positions
        return [tables[known[positions[numbers[label]]]] for label in labels]

    def sources(self) -> Iterator[str]:
        """As in Index."""
        columns = self.columns
        at = columns.kinds.find(_SOURCE)
        while at >= 0:
            yield columns.labels[columns.of[at]]
            at = columns.kinds.find(_SOURCE, at + 1)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return dict(zip(self.columns.labels, range(len(self.columns.labels)), strict=True))

    @cached_property
    def _positions(self) -> list[int]:
        found = [ABSENT] * len(self.columns.labels)
        for position, label in enumerate(self.columns.of):
            found[label] = position
        return found

    @cached_property
    def _rows(self) -> bytes:
        return self.columns.rows()

    @cached_property
    def _places(self) -> array[int]:
        return self.columns.places()

    def _position(self, label: str) -> int:
        position = self._positions[self._numbers[label]]
        if position == ABSENT:
            raise KeyError(label)
        return position

    def _make(self, n: int) -> Target:
        columns, labels = self.columns, self.columns.labels
        attributes = columns.tables[columns.known[n]]
        place = self._places[3 * n], self._places[3 * n + 1], self._places[3 * n + 2]
        if place != NO_PLACE:
            attributes = Packed(columns.chunks, place, attributes)
        row = self._rows[n * ROW_BYTES : (n + 1) * ROW_BYTES]
        deps = columns.deps[columns.starts[n] : columns.starts[n + 1]]
        return Target(
            labels[columns.of[n]],
            KINDS[columns.kinds[n]],
            columns.class_names[columns.classes[n]],
            attributes,
            tuple(sorted([labels[dep] for dep in deps])),
            b"" if row == _NO_ROW else row,
            columns.traits[n],
        )
