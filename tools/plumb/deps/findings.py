"""What a check finds, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from tools.plumb.graph import canonical


class Kind(StrEnum):
    """What is wrong."""

    # The module is not there when the target runs, unless the machine happens to hold it.
    MISSING = "missing"
    # It is there only because a dep needs it for itself.
    INDIRECT = "indirect"
    UNUSED = "unused"
    NO_TARGET = "no-target"
    UNKNOWN = "unknown"
    DYNAMIC = "dynamic"
    EXEMPTION = "exemption"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with what a call of a BUILD file declares.

    call: label of the call that buildozer would edit. targets: those it concerns.
    attribute, label: what to add to or to remove from; label is "" where nobody knows it.
    where: file:line of the import, or of the label that is not needed. what: as it stands there.
    by_hand: why `fix` leaves it alone, or "" if it does not.
    """

    kind: Kind
    call: str
    targets: tuple[str, ...]
    attribute: str
    label: str
    where: str
    what: str
    by_hand: str = ""

    @property
    def adds(self) -> bool:
        """True if `label` is to be added, False if it is to go."""
        return self.kind is not Kind.UNUSED

    @property
    def fixable(self) -> bool:
        """True if `fix` mends it."""
        return bool(self.label) and not self.by_hand

    def command(self) -> str:
        """What buildozer would be told."""
        verb = "add" if self.adds else "remove"
        return f"{verb} {self.attribute} {self.written}"

    @property
    def written(self) -> str:
        """The label as the BUILD file of the call would write it."""
        short = shorten(self.label, self.call)
        return short.removeprefix(":") if self.attribute == "data" else short

    def fields(self) -> dict[str, Any]:
        """The finding for JSON."""
        fields = asdict(self)
        command = f"buildozer '{self.command()}' {self.call}" if self.fixable else None
        return fields | {"targets": list(self.targets), "fix": command}


def shorten(label: str, beside: str) -> str:
    """`label` as a BUILD file in the package of `beside` writes it."""
    label = canonical(label)
    package, _, name = label.partition(":")
    if package == beside.partition(":")[0]:
        return f":{name}"
    return package if package.rpartition("/")[2] == name else label


def matches(label: str, patterns: Sequence[str]) -> bool:
    """True if a label is one of `patterns`: //p:t, //p, //p:all, //p/...; none means any."""
    return not patterns or any(_matches(label, pattern) for pattern in patterns)


def _matches(label: str, pattern: str) -> bool:
    package = label.partition(":")[0]
    if pattern.endswith("..."):
        start = pattern.removesuffix("...").removesuffix("/")
        return start in ("", "/") or package == start or package.startswith(f"{start}/")
    if pattern.endswith((":all", ":*")):
        return package == pattern.rpartition(":")[0]
    return label == canonical(pattern)
