"""The repository's waivers: losses of coverage that an owner accepts until a day."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tools.plumb.cells.model import CADENCES, Cell
from tools.plumb.cells.names import nearest
from tools.plumb.errors import PlumbError

PATH = "tools/plumb/waivers.toml"
_CELL = re.compile(r"(?P<claim>\S+) on (?P<arch>[^\s,]+), (?P<cadence>\S+)")
_TEXTS = ("cell", "reason", "owner")
_EXAMPLE = (
    'wanted [[waiver]] with cell = "CLAIM on ARCH, CADENCE", reason = "why", owner = "who" and '
    "expires = YYYY-MM-DD"
)


@dataclass(frozen=True)
class Waiver:
    """Accepts that `cell` is not covered until the end of the day `expires`."""

    cell: Cell
    reason: str
    owner: str
    expires: datetime.date

    def expired(self, today: datetime.date) -> bool:
        """True from the day after `expires`."""
        return today > self.expires


def parse(text: str) -> tuple[Waiver, ...]:
    """The waivers in `text`. Raises PlumbError naming the entry, what it holds and what it should.

    Two waivers of one cell are refused as well.
    """
    try:
        content = tomllib.loads(text)
    # TOMLDecodeError is a ValueError, as is that of a number with too many digits.
    except (ValueError, RecursionError) as error:
        raise PlumbError(f"{PATH} is no TOML: {error}; {_EXAMPLE}.") from error
    further = sorted(content.keys() - {"waiver"})
    entries = content.get("waiver", [])
    if further or not isinstance(entries, list):
        raise PlumbError(f"{PATH} has {', '.join(further) or 'a single waiver'}: {_EXAMPLE}.")
    waivers = tuple(_waiver(entry, number) for number, entry in enumerate(entries, 1))
    cells = [waiver.cell for waiver in waivers]
    for number, cell in enumerate(cells, 1):
        if cell in cells[: number - 1]:
            raise PlumbError(f"{PATH}: waiver {number} is the second for '{cell}': keep one.")
    return waivers


def _waiver(entry: object, number: int) -> Waiver:
    place = f"{PATH}: waiver {number}"
    if not isinstance(entry, dict):
        raise PlumbError(f"{place} is {entry!r}: {_EXAMPLE}.")
    unknown = sorted(entry.keys() - {*_TEXTS, "expires"})
    if unknown:
        raise PlumbError(f"{place} has {unknown[0]} = {entry[unknown[0]]!r}: {_EXAMPLE}.")
    for name in _TEXTS:
        value = entry.get(name)
        if not isinstance(value, str) or not value.strip():
            raise PlumbError(f"{place} has {name} = {value!r}: wanted a text; {_EXAMPLE}.")
    expires = entry.get("expires")
    if not isinstance(expires, datetime.date) or isinstance(expires, datetime.datetime):
        raise PlumbError(f"{place} has expires = {expires!r}: wanted a day, such as 2027-01-31.")
    match = _CELL.fullmatch(entry["cell"])
    if match is None or match["cadence"] not in CADENCES:
        raise PlumbError(
            f"{place} has cell = {entry['cell']!r}: wanted 'CLAIM on ARCH, CADENCE', as plumb "
            f"prints it, with one of {', '.join(CADENCES)}."
        )
    cell = Cell(match["claim"], match["arch"], match["cadence"])
    return Waiver(cell, entry["reason"], entry["owner"], expires)


@dataclass(frozen=True)
class Judged:
    """accepted: waivers in force for an uncovered cell. expired: those past their day, of any cell.

    idle: those whose cell is covered: a loss that nobody accepted could hide behind them later.
    """

    accepted: tuple[Waiver, ...]
    expired: tuple[Waiver, ...]
    idle: tuple[Waiver, ...]

    @property
    def cells(self) -> frozenset[Cell]:
        """The cells whose loss is accepted."""
        return frozenset(waiver.cell for waiver in self.accepted)


def require_claims(waivers: Sequence[Waiver], claims: Collection[str]) -> None:
    """Raises PlumbError for a waiver of a claim that does not exist, naming the nearest."""
    for number, waiver in enumerate(waivers, 1):
        if waiver.cell.claim not in claims:
            raise PlumbError(
                f"{PATH}: waiver {number} names an unknown claim '{waiver.cell.claim}': "
                f"{nearest(waiver.cell.claim, claims)}"
            )


def judge(
    waivers: Sequence[Waiver],
    uncovered: Collection[Cell],
    claims: Collection[str],
    today: datetime.date,
) -> Judged:
    """Which waivers hold.

    uncovered: every cell that nothing covers after the change. claims: those that exist.
    Raises PlumbError as `require_claims` does.
    """
    require_claims(waivers, claims)
    expired = tuple(w for w in waivers if w.expired(today))
    lasting = [w for w in waivers if not w.expired(today)]
    return Judged(
        tuple(w for w in lasting if w.cell in uncovered),
        expired,
        tuple(w for w in lasting if w.cell not in uncovered),
    )
