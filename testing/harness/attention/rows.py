"""What an attention output (T, H, Dv) shows beside the definition's: findings that name the place.

Shared by the tests of dense, sliding-window and MLA layers:

    labels = RowLabels.of([1, 17], positions, heads=8, kv_heads=2, page_size=16)
    checked = check_rows(RowComparison(got, exact, noise, kind, labels.families()), labels)
    verdict.add(checked.findings, checked.statistics)

`exact` and `noise` come from the oracle, request by request, joined with `joined_noise`.
Statistics are `gain`, `outside` and a `z_…` a family, which `tools/results` makes a table of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from testing.harness.checks import Checked
from testing.harness.verdict import Finding
from testing.oracles.arrays import Mask
from testing.oracles.attention.error_model import RowNoise
from testing.oracles.attention.paging import Int64
from testing.oracles.attention.scores import RowComparison, RowEvidence, row_evidence

Families = dict[str, tuple[Sequence[str], Int64]]
_MOST = 6


@dataclass(frozen=True)
class RowLabels:
    """Which request, token and position each row of T belongs to.

    request, token, position: (T,); token counts within the request's part of the call.
    """

    request: Int64
    token: Int64
    position: Int64
    heads: int
    kv_heads: int
    page_size: int

    @classmethod
    def of(
        cls,
        query_lens: Sequence[int],
        positions: Sequence[int] | Int64,
        heads: int,
        kv_heads: int,
        page_size: int,
    ) -> RowLabels:
        """query_lens: (B,) tokens of each request; positions: (T,)."""
        request: Int64 = np.repeat(np.arange(len(query_lens)), query_lens)
        token = np.concatenate([np.arange(n) for n in query_lens])
        place: Int64 = np.asarray(positions, np.int64)
        return cls(request, token, place, heads, kv_heads, page_size)

    def families(self) -> Families:
        """{family: (names, (T, H) number of each row's place)}."""
        tokens, heads = len(self.request), np.arange(self.heads)
        by_token: Int64 = np.arange(tokens)
        names = [self.name_of(t) for t in range(tokens)]
        requests = [f"request {b}" for b in range(int(self.request.max()) + 1)]
        group = self.heads // self.kv_heads
        offsets = self.position % self.page_size
        found: Families = {
            "gain": (["the whole output"], self._across(np.zeros(tokens, np.int64))),
            "request": (requests, self._across(self.request)),
            "head": ([f"head {h}" for h in heads], np.tile(heads, (tokens, 1))),
            "token": (names, self._across(by_token)),
        }
        if 1 < self.kv_heads < self.heads:
            kv = np.tile(heads // group, (tokens, 1))
            found["kv_head"] = ([f"kv head {g}" for g in range(self.kv_heads)], kv)
        if self.page_size > 1:
            at = [f"offset {i} of a page" for i in range(self.page_size)]
            found["offset"] = (at, self._across(offsets))
        return found

    def name_of(self, row: int) -> str:
        """`request 2, token 3 at position 17`."""
        return (
            f"request {self.request[row]}, token {self.token[row]} at position {self.position[row]}"
        )

    def _across(self, by_token: Int64) -> Int64:
        return np.tile(by_token[:, None], self.heads)


def joined_noise(parts: Sequence[RowNoise]) -> RowNoise:
    """The noise of all requests, one after another."""
    names = ("bound", "std", "projected", "shared")
    return RowNoise(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def check_rows(comparison: RowComparison, labels: RowLabels, check: str = "output") -> Checked:
    """Finite, every element within the error model, and no part biased."""
    bad = ~np.isfinite(comparison.got)
    if bad.any():
        return Checked(_by_request(bad, labels, check, "finite", "are not finite"), {})
    evidence = row_evidence(comparison)
    statistics = {f"z_{name}": family.worst_z for name, family in evidence.items()}
    statistics["gain"] = 1 + float(evidence["gain"].gain[0])
    statistics["outside"] = float(comparison.outside.sum())
    findings = _biased(evidence, check)
    if comparison.outside.any():
        findings += _outside(comparison, labels, check)
    return Checked(findings, statistics)


def _biased(evidence: dict[str, RowEvidence], check: str) -> list[Finding]:
    """Where a bias is local: a family most of whose places are biased says nothing of where."""
    findings = []
    for name, family in evidence.items():
        rejected = family.rejected
        if not rejected.any() or (name != "gain" and rejected.mean() > 0.5):
            continue
        for place in np.argsort(-family.score)[: min(_MOST, int(rejected.sum()))]:
            gain = 1 + float(family.gain[place])
            message = f"gain {gain:.5f} (want 1) in {family.names[place]}"
            findings.append(Finding(check, name, family.names[place], message, gain))
    return findings


def _outside(comparison: RowComparison, labels: RowLabels, check: str) -> list[Finding]:
    outside = comparison.outside
    findings = _by_request(outside, labels, check, "element", "lie outside the error model")
    size = np.where(outside, np.abs(comparison.residual) / (comparison.noise.bound + 1e-30), 0)
    t, h, d = np.unravel_index(int(np.argmax(size)), size.shape)
    worst = (
        f"; the worst is {comparison.got[t, h, d]:.6g} (want {comparison.exact[t, h, d]:.6g} ± "
        f"{comparison.noise.bound[t, h, d]:.2g}) at {labels.name_of(int(t))}, head {h}, element {d}"
    )
    first = findings[0]
    return [
        Finding(first.check, first.family, first.place, first.message + worst, first.value),
        *findings[1:],
    ]


def _by_request(
    wrong: Mask, labels: RowLabels, check: str, family: str, what: str
) -> list[Finding]:
    """A finding a request: which of its heads and tokens."""
    findings = []
    for request in np.unique(labels.request[wrong.any(axis=(1, 2))]):
        rows = labels.request == request
        part = wrong[rows]
        heads = _span("head", part.any(axis=(0, 2)))
        tokens = _span("token", part.any(axis=(1, 2)))
        place = f"request {request}, {heads}, {tokens}"
        message = f"{part.sum()} of {part.size} elements {what} in {place}"
        findings.append(Finding(check, family, place, message, float(part.sum())))
    return findings


def _span(noun: str, which: Mask) -> str:
    """`heads 2, 3`, `all heads`, `token 4`, `tokens 3..9` (some of them)."""
    numbers = which.nonzero()[0].tolist()
    if len(numbers) == len(which):
        return f"all {noun}s"
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    if len(numbers) <= _MOST:
        return f"{noun}s {', '.join(map(str, numbers))}"
    dense = numbers[-1] - numbers[0] + 1 == len(numbers)
    return f"{noun}s {numbers[0]}..{numbers[-1]}" + ("" if dense else f" ({len(numbers)} of them)")
