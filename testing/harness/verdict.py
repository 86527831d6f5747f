"""What a check of a layer found, in words that a person can act on."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    check: which probe found it, such as 'lossless grid'.
    family: that of a biased place, or element, cell, code, noise, finite, zeros, spoilt, spread,
        memory.
    place: where, such as "tile (2, 3) of shard 'up'".
    message: what was seen and what was wanted there.
    value: the figure seen, where there is one (a gain, a count).
    """

    check: str
    family: str
    place: str
    message: str
    value: float | None = None

    def __str__(self) -> str:
        return f"{self.message} [{self.check}]"


@dataclass
class Verdict:
    """All findings about one subject, and the statistics behind them.

    subject: the layer as a person would name it, such as 'int8_block column layer gate_up_proj'.
    """

    subject: str
    findings: list[Finding] = field(default_factory=list)
    statistics: dict[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.findings

    def add(self, findings: list[Finding], statistics: dict[str, float] | None = None) -> "Verdict":
        """Take in findings and statistics; gives itself back."""
        self.findings += findings
        self.statistics.update(statistics or {})
        return self

    def require(self) -> None:
        """Raise AssertionError with every finding, a line each, if there is any."""
        if not self.ok:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        if self.ok:
            return f"{self.subject}: right"
        return "\n".join(f"{self.subject}: {finding}" for finding in self.findings)
