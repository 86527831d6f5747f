"""Where an encoder's codes differ from the oracle's, and whether each may."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from testing.oracles.arrays import Mask
from testing.oracles.codecs.grid import Codes


@dataclass
class Differences:
    """Counts of codes compared, near ties among them, and ties that the encoder resolved otherwise.

    Any other difference is a finding.
    """

    name: str
    compared: int = 0
    near_ties: int = 0
    other: int = 0
    findings: list[str] = field(default_factory=list)

    def codes(self, what: str, got: Codes, want: Codes, near: Mask, sign: int) -> None:
        """Element codes; `sign` is the format's sign bit. On a near tie one code step is right."""
        magnitude = sign - 1
        differs = got != want
        step = np.abs((got & magnitude).astype(int) - (want & magnitude))
        one_step = (step == 1) & ((got & sign) == (want & sign))
        self._count(what, got, want, differs, near, near & one_step)

    def scales(self, what: str, got: Codes, want: Codes, near: Mask, other: Codes) -> None:
        """Block scales; on a near tie the `other` right one, and nothing else."""
        self._count(what, got, want, got != want, near, near & (got == other))

    def _count(
        self, what: str, got: Codes, want: Codes, differs: Mask, near: Mask, right: Mask
    ) -> None:
        self.compared += differs.size
        self.near_ties += int(near.sum())
        self.other += int((differs & right).sum())
        wrong = np.argwhere(differs & ~right)
        if len(wrong):
            place = tuple(int(i) for i in wrong[0])
            self.findings.append(
                f"{what}: {len(wrong)} of {differs.size} differ off ties, first at {place}: "
                f"{got[place]:#04x}, wanted {want[place]:#04x}"
            )

    def figures(self) -> dict[str, object]:
        """For `testing.harness.records`."""
        return {
            "encoder": self.name,
            "compared": self.compared,
            "near_ties": self.near_ties,
            "other_code": self.other,
        }

    def require(self) -> None:
        """Raises AssertionError with every finding."""
        assert not self.findings, f"{self.name}:\n" + "\n".join(self.findings)
