"""An attention layer's output beside the exact one: elements, and the power of what is off.

got (T, H, D): token, head, value. Three questions:

- Element: y must lie in [round(r - a), round(r + a)], a the model's bound.
- Power: of a place (all of it, a head, a request, a token) Σ(y - r)² must not exceed what the model
  expects, Σ(s² + h) with s the model's deviation and h = ulp²/12 of the last rounding, by more than
  chance. The errors of one token and head may all have one cause (a rounded query turns every value
  of its output): taken to be wholly dependent, a row of them has one degree of freedom, while the
  output's own rounding has D. So the sum has mean m = Σ(s² + h), and variance at most
  Σ_rows 2·(Σ_D s²)² + Σ(2h² + 4s²h): that of a χ² with 2m²/variance degrees of freedom, scaled
  (Satterthwaite, Biometrics 2, 1946). A family of places is tested at FALSE_ALARMS in all, by
  Bonferroni. s is an upper estimate, so that less than the expected power is no alarm.
- Bias along a direction x (the output itself for a gain; its derivative by the logits' scale): a
  bias g makes y - r = g·x. Σ x·(y - r) has mean g·Σx², and without bias a variance of at most
  Σ_rows (Σ_D |x| s)² + Σ x² h, rows of a token and head being independent of each other. It is a
  sum of bounded errors, so that it exceeds z deviations with 2·exp(-z²/2). Directions are given
  for layers whose rows are independent only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import chi2

from testing.oracles.arrays import Float64, Mask
from testing.oracles.attention.paging import Int64
from testing.oracles.error_model.noise import Noise
from testing.oracles.rounding import FloatType, round_to, ulp

FALSE_ALARMS = 1e-6


@dataclass(frozen=True)
class Rows:
    """got, exact: (T, H, D); requests: (T,) which request each token belongs to.

    directions: (T, H, D) each, by name.
    """

    got: Float64
    exact: Float64
    noise: Noise
    kind: FloatType
    requests: Int64
    directions: Mapping[str, Float64] = field(default_factory=dict)

    def outside(self) -> Mask:
        """(T, H, D) where y is beyond the bound."""
        low = round_to(self.exact - self.noise.bound, self.kind)
        high = round_to(self.exact + self.noise.bound, self.kind)
        return ~((low <= self.got) & (self.got <= high))

    def families(self) -> dict[str, Mapping[str, Mask]]:
        """{family: {place: (T, H) bool}}, from the largest to the smallest."""
        tokens, heads = self.got.shape[:2]
        t, h = np.indices((tokens, heads))
        found: dict[str, Mapping[str, Mask]] = {"whole": {"the whole output": t >= 0}}
        if len(names := np.unique(self.requests)) > 1:
            found["request"] = {f"request {b}": self.requests[t] == b for b in names}
        if heads > 1:
            found["head"] = {f"head {i}": h == i for i in range(heads)}
        if tokens > 1:
            found["token"] = {self.token(i): t == i for i in range(tokens)}
        return found

    def token(self, index: int) -> str:
        """`token 3 of request 1`, counted within the request's part of the call."""
        request = self.requests[index]
        return f"token {index - int(np.argmax(self.requests == request))} of request {request}"

    def excess(self) -> dict[str, "Excess"]:
        """Every family's power."""
        h = ulp(self.exact, self.kind) ** 2 / 12
        variance = self.noise.std**2
        seen = ((self.got - self.exact) ** 2).sum(axis=2)
        mean = (variance + h).sum(axis=2)
        of_mean = 2 * variance.sum(axis=2) ** 2 + (2 * h**2 + 4 * variance * h).sum(axis=2)
        return {
            family: Excess.of(places, seen, mean, of_mean)
            for family, places in self.families().items()
        }

    def biases(self) -> dict[str, dict[str, "Bias"]]:
        """{direction: {family: its bias}}."""
        h = ulp(self.exact, self.kind) ** 2 / 12
        found = {}
        for name, x in self.directions.items():
            along = (x * (self.got - self.exact)).sum(axis=2)
            square = (x**2).sum(axis=2)
            variance = (np.abs(x) * self.noise.std).sum(axis=2) ** 2 + (x**2 * h).sum(axis=2)
            found[name] = {
                family: Bias.of(places, along, square, variance)
                for family, places in self.families().items()
            }
        return found


@dataclass(frozen=True)
class Bias:
    """One family, along one direction. gain: the bias seen; z: in its deviations."""

    places: tuple[str, ...]
    gain: Float64
    z: Float64

    @classmethod
    def of(
        cls, places: Mapping[str, Mask], along: Float64, square: Float64, variance: Float64
    ) -> "Bias":
        """Sums over each place of (T, H) arrays."""
        masks, tiny = places.values(), np.finfo(float).tiny
        a, s, v = (np.array([x[mask].sum() for mask in masks]) for x in (along, square, variance))
        return cls(tuple(places), a / np.maximum(s, tiny), a / np.sqrt(np.maximum(v, tiny)))

    @property
    def rejected(self) -> Mask:
        """Places whose bias is beyond chance; a NaN is."""
        limit = np.sqrt(2 * np.log(2 * len(self.places) / FALSE_ALARMS))
        return ~(np.abs(self.z) <= limit)


@dataclass(frozen=True)
class Excess:
    """One family.

    ratio: power seen over power expected; limit: that chance allows.
    freedom: degrees of freedom of each place's sum.
    """

    places: tuple[str, ...]
    ratio: Float64
    limit: Float64
    freedom: Float64

    @classmethod
    def of(
        cls, places: Mapping[str, Mask], seen: Float64, mean: Float64, variance: Float64
    ) -> "Excess":
        """Sums over each place of (T, H) arrays."""
        masks = tuple(places.values())
        s, m, v = (np.array([a[mask].sum() for mask in masks]) for a in (seen, mean, variance))
        m = np.maximum(m, np.finfo(float).tiny)
        freedom = np.maximum(2 * m**2 / np.maximum(v, np.finfo(float).tiny), 1.0)
        limit = chi2.isf(FALSE_ALARMS / len(masks), freedom) / freedom
        return cls(tuple(places), s / m, limit, freedom)

    @property
    def rejected(self) -> Mask:
        """Places whose power is beyond chance; a NaN is."""
        return ~(self.ratio <= self.limit)

    @property
    def worst_z(self) -> float:
        """The smallest chance of any place as the normal deviate with the bound exp(-z²/2)."""
        chance = chi2.logsf(self.ratio * self.freedom, self.freedom).min()
        return float(np.sqrt(-2 * chance))
