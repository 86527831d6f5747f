"""What a wrong output is instead: the wrong attention that explains it, or the keys that it lost.

With d = y - round(o) and a suspect's difference s = o' - o, weighed by w = 1/(ulp²/12 + σ²), a
suspect explains d if its amount c = Σ w·d·s / Σ w·s² is about 1 and little is left of Σ w·d². Of
several, that which leaves least is named, and those that leave as little (the same output by
another way).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from testing.oracles.arrays import Float64, Mask
from testing.oracles.attention.dense import Request, Rule, attend
from testing.oracles.attention.paging import Int64
from testing.oracles.attention.scores import RowComparison
from testing.oracles.attention.suspects import suspects
from testing.oracles.rounding import ulp

_SIGNIFICANT = 20.0
_AS_GOOD = 0.98
_EXPLAINED = 0.95
_MISSING, _THERE = 0.25, 0.5
_SOME = 0.15
_LARGEST = 2**22
"""Logits of a request beyond which nobody waits for an explanation."""


@dataclass(frozen=True)
class Reading:
    """A sentence that goes on from "this is what one gets where …".

    amount: c, 1 if the output is exactly that.
    explained: the share of Σ w·d² that it explains.
    """

    name: str
    amount: float
    explained: float


@dataclass(frozen=True)
class _Wrong:
    """The wrong rows of one request: d, w (S, Hq, Dv), and which heads are looked at."""

    request: Request
    number: int
    residual: Float64
    weight: Float64


def explain(
    requests: Sequence[Request],
    rule: Rule,
    comparison: RowComparison,
    request_of: Int64,
    page_size: int,
    scales: tuple[float, float] | None = None,
) -> list[Reading]:
    """The readings of a finite output that is wrong, best first; [] if none fits.

    request_of: (T,) the request of each token. scales: of an fp8 cache's k and v.
    """
    if not comparison.residual.any():
        return []
    wrong = _wrong_parts(requests, comparison, request_of)
    if max(w.request.queries * w.request.length for w in wrong) * rule.heads > _LARGEST:
        return []
    candidates: dict[str, list[tuple[_Wrong, Float64]]] = {}
    for part in wrong:
        right = attend(part.request, rule).output
        for name, output in suspects(part.request, rule, scales):
            candidates.setdefault(name, []).append((part, output - right))
    found = [_reading(name, pairs, wrong) for name, pairs in candidates.items()]
    found.append(_other_scaling(wrong, rule))
    fitting = [r for r in found if r is not None] + _pages(wrong, rule, page_size)
    best = max((r.explained for r in fitting), default=0.0)
    return sorted(
        (r for r in fitting if r.explained >= _AS_GOOD * best), key=lambda r: -r.explained
    )


def _wrong_parts(
    requests: Sequence[Request], comparison: RowComparison, request_of: Int64
) -> list[_Wrong]:
    """Requests with elements outside the model, or all of them where only a bias was found."""
    spacing = ulp(comparison.exact, comparison.kind)
    weight = 1 / (spacing**2 / 12 + comparison.noise.std**2)
    outside = comparison.outside.any(axis=2)
    bad: Mask = outside if outside.any() else np.ones_like(outside)
    parts = []
    for number, request in enumerate(requests):
        rows = request_of == number
        heads = bad[rows].any(axis=0)
        if heads.any():
            part = weight[rows] * heads[None, :, None]
            parts.append(_Wrong(request, number, comparison.residual[rows], part))
    return parts


def _reading(
    name: str, pairs: Sequence[tuple[_Wrong, Float64]], wrong: Sequence[_Wrong]
) -> Reading | None:
    square = sum(float((w.weight * w.residual**2).sum()) for w in wrong)
    size = sum(float((w.weight * s**2).sum()) for w, s in pairs)
    if not size:
        return None
    along = sum(float((w.weight * w.residual * s).sum()) for w, s in pairs)
    left = square + sum(
        float((w.weight * (w.residual - s) ** 2).sum() - (w.weight * w.residual**2).sum())
        for w, s in pairs
    )
    elements = sum(float((w.weight > 0).sum()) for w in wrong)
    explained, amount = 1 - left / square, along / size
    # What is left may be no more than a right kernel's own errors.
    fits = explained > _EXPLAINED or left < 2 * elements
    if not (fits and 0.8 < amount < 1.25 and (square - left) / 2 > _SIGNIFICANT):
        return None
    return Reading(name, amount, explained)


def _other_scaling(wrong: Sequence[_Wrong], rule: Rule) -> Reading | None:
    """The scaling that fits best, by two steps of Newton's method."""
    factor = 1.0
    for _ in range(3):
        along = size = 0.0
        for part in wrong:
            here, there = (
                attend(part.request, replace(rule, scaling=rule.scaling * f)).output
                for f in (factor, factor * 1.0001)
            )
            slope = (there - here) / 1e-4
            ahead = part.residual - (here - attend(part.request, rule).output)
            along += float((part.weight * ahead * slope).sum())
            size += float((part.weight * slope**2).sum())
        if not size:
            return None
        factor *= 1 + float(np.clip(along / size, -0.5, 0.5))
    if abs(factor - 1) < 1e-4:
        return None
    pairs = [
        (
            part,
            attend(part.request, replace(rule, scaling=rule.scaling * factor)).output
            - attend(part.request, rule).output,
        )
        for part in wrong
    ]
    return _reading(f"the scaling is {factor:.4f} times what it should be", pairs, wrong)


def _pages(wrong: Sequence[_Wrong], rule: Rule, page_size: int) -> list[Reading]:
    """The one page of a request that is missing, where all others are there in right proportion.

    Each row of the output is fitted by what each page should add to it, Σ_{j in page} p_j·v_j: a
    page whose keys are missing, or another's, has no part in it; the others have.
    """
    found = []
    for part in wrong:
        parts = _shares(part, rule, page_size)
        lost = (parts < _MISSING).nonzero()[0]
        if len(lost) == 1 and (parts > _THERE).sum() == np.isfinite(parts).sum() - 1 > 0:
            start = int(lost[0]) * page_size
            last = min(start + page_size, part.request.length) - 1
            name = (
                f"keys {start}..{last} of request {part.number}, its page {lost[0]}, are missing "
                "or another's"
            )
            found.append(Reading(name, 1 - float(parts[lost[0]]), 0.5))
    return found


def _shares(part: _Wrong, rule: Rule, page_size: int) -> Float64:
    """(pages,): how much of what a page should add is in the output; nan where it adds nothing."""
    right = attend(part.request, rule)
    starts = np.arange(0, part.request.length, page_size)
    weighted = right.probabilities[..., None] * right.v[:, None]
    each = np.add.reduceat(weighted, starts, axis=2)
    got = (part.residual + right.output).transpose(1, 0, 2)
    rows = part.weight.any(axis=2).T
    each, got = each[rows], got[rows]
    power = (each**2).sum(axis=2)
    gram = each @ each.transpose(0, 2, 1)
    ridge = 1e-9 * power.sum(axis=1)[:, None, None] * np.eye(len(starts))
    fitted = np.linalg.solve(gram + ridge, (each @ got[..., None]))[..., 0]
    explained = (fitted[:, None] @ each @ got[..., None]).sum() / (got**2).sum()
    if explained < _SOME:
        # Nothing of what it should be is in it.
        return np.full(len(starts), np.nan)
    total = power.sum(axis=0)
    seen = total > 1e-6 * total.sum()
    share = (fitted * power).sum(axis=0) / np.where(seen, total, 1.0)
    return np.where(seen, share / np.median(share[seen]), np.nan)
