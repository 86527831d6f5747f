"""What a smoke asserts: figures of a run against bounds of a stated false-failure rate."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testing.e2e.asking.ask import Answer
from testing.e2e.checkpoints.folders import measured
from testing.e2e.statistics.bounds import FEWEST_RUNS, RATE, Share, highest_ratio, least_share
from testing.harness.device import pool
from testing.harness.records import record

RATIOS = Path(__file__).parent / "ratios.json"
"""{smoke: {pool: {ratio: its values in runs in which all was right}}}."""

RECORDING = "PLUMBLINE_RECORD"
"""Set in the environment of runs that are to be recorded, whose ratios no bound cuts off."""


@dataclass
class Figures:
    """Figures of one run of a smoke, each with its bound.

    smoke: its name.
    checkpoint: what it serves.
    assertions: how many share the run's false-failure rate.
    """

    smoke: str
    checkpoint: str
    assertions: int
    seen: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    # Apart: a busy machine can be late as well, and so a late run says nothing of a planted fault.
    late: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """At which one assertion may fail although all is right."""
        return RATE / self.assertions

    def accuracy(self, answers: Sequence[Answer], name: str = "accuracy") -> None:
        """At least as many right answers as the checkpoint's reference lets expect."""
        counts = measured(self.checkpoint)["right"].values()
        reference = Share(sum(right for right, _ in counts), sum(of for _, of in counts))
        wrong = [answer for answer in answers if not answer.is_right]
        least = least_share(reference, len(answers), self.rate)
        seen = 1 - len(wrong) / len(answers)
        shown = "; ".join(
            f"'{a.problem.prompt}' got '{a.text}' ({a.finish_reason}), wanted '{a.problem.answer}'"
            for a in wrong[:3]
        )
        self._at_least(name, seen, least, f"{len(wrong)} of {len(answers)} are wrong: {shown}")

    def agreement(self, some: Sequence[Answer], others: Sequence[Answer]) -> None:
        """Texts of the same problems that differ are explained by wrong answers of either."""
        counts = measured(self.checkpoint)["right"].values()
        right, of = sum(right for right, _ in counts), sum(of for _, of in counts)
        # A pair of right answers agrees; either may be wrong.
        reference = Share(max(0, of - 2 * (of - right)), of)
        differing = [
            f"'{a.text}' and '{b.text}'"
            for a, b in zip(some, others, strict=True)
            if a.text != b.text
        ]
        least = least_share(reference, len(some), self.rate)
        shown = "; ".join(differing[:3])
        self._at_least("agreement", 1 - len(differing) / len(some), least, f"differing: {shown}")

    def accept_length(self, draft_tokens: int, total: float, verifications: float) -> None:
        """Tokens a verification, the model's own included, of chains of that many drafts."""
        drafts = measured(self.checkpoint)["drafts"][str(draft_tokens)]
        reference = Share(drafts["hits"], drafts["trials"], drafts["design_effect"])
        if verifications < 1:
            self.failures.append("no draft was ever verified: is speculation on?")
            return
        least = 1 + draft_tokens * least_share(reference, int(verifications), self.rate)
        what = f"{verifications:.0f} verifications"
        self._at_least("accept_length", total / verifications, least, what)

    def sameness(self, texts: Sequence[str], wholes: Sequence[str], parts: Sequence[str]) -> None:
        """Texts are the model's own as often as the reference's stay its own, rounded otherwise.

        The bound is a statistic, and low: of 48 texts half may differ. The reference's own stay the
        same in 332 of 384, which of so many says a share of 0.78 or more; of 48 such texts fewer
        than 24 are the same in one run of 80,000. Four times the texts would have it at 0.65. A
        right run on a CPU had 0.94 of the server and 1.00 of batches, drafts kept wrongly leave 0.
        Equality is not promised: verification rounds in batches of other shapes than decodes do.
        That each text that differs does so at a near tie is not looked at here.

        wholes, parts: the model's, without a server, in one batch and in smaller ones, whose sums
            go in another order; a model that depends on its batch beyond that is seen apart.
        """
        same, of = measured(self.checkpoint)["unsure"]
        least = least_share(Share(same, of), len(texts), self.rate)
        for name, mine in (("sameness", texts), ("batch_sameness", parts)):
            differing = [f"'{a}', not '{b}'" for a, b in zip(mine, wholes, strict=True) if a != b]
            seen = 1 - len(differing) / len(mine)
            self._at_least(name, seen, least, "; ".join(differing[:3]))

    def ratio(self, name: str, seen: float) -> None:
        """At most what right runs lead to expect, by their tolerance bound."""
        self.seen[name] = seen
        if RECORDING in os.environ:
            return
        runs = recorded_ratios(self.smoke).get(name, [])
        if len(runs) < FEWEST_RUNS:
            self.late.append(
                f"{name} is {seen:.3f}, and pool {pool()} has {len(runs)} recorded runs to "
                f"hold it against, wanted {FEWEST_RUNS}: run python -m "
                f"testing.e2e.smokes.repeat --only {self.smoke} --runs 20 --record there"
            )
            return
        self.bounds[name] = highest = highest_ratio(runs, self.rate)
        if seen > highest:
            self.late.append(f"{name} is {seen:.3f}, wanted at most {highest:.3f}")

    def finish(self) -> None:
        """Keeps the figures.

        Raises:
            AssertionError: with every figure that is beyond its bound.
        """
        entry: dict[str, object] = {"smoke": self.smoke, "pool": pool(), "seen": self.seen}
        record(entry | {"bounds": self.bounds})
        shown = ", ".join(
            f"{name} {value:.4g} (bound {self.bounds.get(name, float('nan')):.4g})"
            for name, value in self.seen.items()
        )
        print(f"{self.smoke}: {shown}", flush=True)
        beyond = self.failures + self.late
        assert not beyond, f"{self.smoke}: " + "\n".join(beyond)

    def _at_least(self, name: str, seen: float, least: float, what: str) -> None:
        self.seen[name], self.bounds[name] = seen, least
        if seen < least:
            self.failures.append(f"{name} is {seen:.4f}, wanted at least {least:.4f}; {what}")


def recorded_ratios(smoke: str) -> dict[str, list[float]]:
    """Of this pool; nothing where no run was recorded."""
    found: dict[str, Any] = json.loads(RATIOS.read_text()) if RATIOS.exists() else {}
    ratios: dict[str, list[float]] = found.get(smoke, {}).get(pool(), {})
    return ratios


def median(values: Sequence[float]) -> float:
    """The middle of them.

    Raises:
        AssertionError: there are none.
    """
    assert values, "no answer has any text"
    return statistics.median(values)
