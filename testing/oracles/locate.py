"""Name the places of an output whose bias explains what is wrong with it.

Matching pursuit: of all places take the one whose bias explains most of the residual, take its
share off, and look again. A fault in one tile also moves the statistics of its shard, its K block
and its columns; the tile explains more than any of these.

Once an output is known to be wrong, the error model of a right kernel no longer says how large
its errors are: something may scatter them without a bias. A place is named only if its bias stands
out from the scatter seen, or from errors of either sign.
"""

from dataclasses import dataclass

import numpy as np

from testing.oracles.arrays import Float64, Mask
from testing.oracles.places import Layout, Place, Shard
from testing.oracles.statistics import Comparison, evidence

# y and round(r) then round independently: 1/12 + 1/12 of an ulp squared.
_FAULTY_VARIANCE = 1 / 6
_MOST_PLACES = 8
# A larger place is named when it explains as much as a smaller one up to this fraction.
_AS_GOOD = 0.98


@dataclass(frozen=True)
class Bias:
    """A place whose part of the output is `gain` times what it should be."""

    place: Place
    gain: float
    deviation: float


def misplaced_shards(comparison: Comparison) -> list[tuple[Shard, Shard]]:
    """(shard, other) wherever `shard` of the output is what `other` of the reference should be."""
    found = []
    for shard in comparison.layout.shards:
        got = comparison.got[:, shard.start : shard.stop]
        for other in comparison.layout.shards:
            same_size = other.stop - other.start == shard.stop - shard.start
            if other == shard or not same_size:
                continue
            want = comparison.exact[:, other.start : other.stop]
            own = comparison.exact[:, shard.start : shard.stop]
            if _misfit(got, want) < 0.1 < _misfit(got, own):
                found.append((shard, other))
    return found


def biases(comparison: Comparison, ignored: tuple[Shard, ...] = ()) -> list[Bias]:
    """The biased places, most telling first, with gains fitted together; [] if none is significant.

    ignored: shards already explained in another way.
    """
    residual = comparison.residual()
    for shard in ignored:
        residual[:, shard.start : shard.stop] = 0
    chosen: list[Place] = []
    found: list[Bias] = []
    left = residual
    while len(chosen) < _MOST_PLACES:
        place = _most_telling(comparison, left, untouched=not chosen)
        if place is None or place in chosen:
            break
        chosen.append(place)
        left, found = _fit(comparison, residual, chosen)
    return found


def _most_telling(comparison: Comparison, residual: Float64, untouched: bool) -> Place | None:
    """untouched: no share was taken off yet; afterwards errors are skew, not of either sign."""
    scatter = float(np.mean((residual / comparison.typical_ulp()) ** 2))
    variance = np.full(residual.shape, max(_FAULTY_VARIANCE, scatter))
    best: Place | None = None
    reduction = 0.0
    for family in evidence(comparison, residual, variance).values():
        significant = family.rejected
        if untouched:
            significant = significant | (family.symmetric > family.threshold)
        if not significant.any():
            continue
        explained = np.where(significant, family.reduction, 0.0)
        place = int(explained.argmax())
        if explained[place] * _AS_GOOD > reduction:
            best, reduction = family.places[place], float(explained[place])
    return best


def _fit(
    comparison: Comparison, residual: Float64, places: list[Place]
) -> tuple[Float64, list[Bias]]:
    """Least squares of the residual on all places together: what is left, and the biases."""
    tau = comparison.typical_ulp()
    regressors = np.stack([_regressor(comparison, place) / tau for place in places])
    flat = regressors.reshape(len(places), -1)
    gram = flat @ flat.T
    gain = np.linalg.lstsq(gram, flat @ (residual / tau).ravel(), rcond=None)[0]
    left = residual - np.tensordot(gain, regressors, axes=1) * tau
    spread = np.sqrt(np.mean((left / tau) ** 2) * np.diag(np.linalg.pinv(gram)))
    return left, [
        Bias(place, 1 + float(g), float(s))
        for place, g, s in zip(places, gain, spread, strict=True)
    ]


def _regressor(comparison: Comparison, place: Place) -> Float64:
    block = place.k_block
    source = comparison.parts.sum(axis=0) if block is None else comparison.parts[block]
    regressor = np.zeros_like(source)
    regressor[place.rows, place.columns] = source[place.rows, place.columns]
    return regressor


def _misfit(got: Float64, want: Float64) -> float:
    """Share of `got` that no multiple of `want` explains."""
    product = float(np.sum(got * want))
    size = float(np.sum(got**2) * np.sum(want**2))
    return 1.0 - (product * product / size if size else 0.0)


def describe_cells(wrong: Mask, layout: Layout) -> list[str]:
    """Where cells (N, K) of a weight are wrong: a line a shard with count and bounding box."""
    lines = []
    for shard in layout.shards:
        part = wrong[shard.start : shard.stop]
        rows, columns = part.any(axis=1).nonzero()[0], part.any(axis=0).nonzero()[0]
        if not len(rows):
            continue
        name = f"shard '{shard.name}': " if shard.name else ""
        lines.append(
            f"{name}{part.sum()} of {part.size} weight cells differ, within "
            f"rows {rows[0]}..{rows[-1]}, k {columns[0]}..{columns[-1]}"
        )
    return lines
