"""How far a right GDN kernel may be off: the declared roundings, drawn at random and counted.

An error made at one token reaches later ones through the state, where (I - β k kᵀ) turns it and the
decay shrinks it. Its variance has no short form, but the recurrence carries it exactly: it is run
again, in its chunked form (`gdn.chunked`), some times over with random errors where the kernel
rounds, and what comes out is beside the exact answer. That gives of each element, to first order,

    s² = mean over replicas of (perturbed - exact)².

An estimate from K replicas may be too low by chance: the largest is taken of it and of its mean
over the values of the same token and head, whose errors have the same causes, spread over them as
are the squares of the terms that each output adds up (`chunked.terms`), as errors of 16 bits are
relative; for a state, as keys and values share its power. With eight replicas, of 288,000 elements
of a right kernel none was beyond 5 of its s; with two, some were beyond 8. What is rounded, by
backend:

- every one: y after the convolution. The oracle rounds it too, so that only those elements differ
  which float32 arithmetic may send to the other side of a tie (`chunked.near_ties`), by an ulp.
- float32 backends (torch; recurrent decode): q and k normalised, the state at each step, sums over
  Dk; u = 2^-24 each.
- chunked kernels in 16 bits (flash-linear-attention): q, k normalised; β k, β v and β e^G k; T; U
  and W; the state, as products with it see it, while its sum stays in float32; N, and N times its
  decay; (q kᵀ) ∘ D.

The triangular solve: (I + A)(T + E) = I + R, so that E = T·R with |R| at most C·u of |I + A||T|
(Higham, section 8.1). Keys have length 1 and β < 1, so that |A| < 1: E is what the sums over C that
follow add anyway, and with float32 far below a rounding of the output.

The bound of an element is 8 s: the sum of independent bounded errors exceeds it with 2·exp(-32).
"""

from dataclasses import dataclass

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.attention.gdn.chunked import Rounding, chunked, terms
from testing.oracles.attention.gdn.gdn import GdnAnswer, GdnCall
from testing.oracles.error_model.noise import Noise

TAIL = 8.0
REPLICAS = 16


@dataclass(frozen=True)
class GdnNoise:
    """output: (T, Hv, Dv). state: (B, Hv, Dk·Dv). Before their own rounding."""

    output: Noise
    state: Noise


def gdn_noise(
    call: GdnCall, answer: GdnAnswer, rounding: Rounding, replicas: int = REPLICAS
) -> GdnNoise:
    """Beside `delta_rule(call)`."""
    rng = np.random.default_rng(len(call.mixed))
    output, state = np.zeros_like(answer.output), np.zeros_like(answer.state)
    for request in call.requests:
        rows = call.rows(request)
        if rows.start == rows.stop:
            continue
        outputs, states = chunked(call, request, rounding, rng, replicas)
        output[rows] = _deviation(
            outputs - answer.output[rows], terms(call, request, rounding) ** 2
        )
        error = states - answer.state[request]
        by_value = (error**2).mean(axis=(0, 2))[:, None]
        state[request] = _deviation(error, by_value)
    return GdnNoise(_noise(output), _noise(state.reshape(*state.shape[:2], -1)))


def _deviation(error: Float64, sizes: Float64) -> Float64:
    """error (replicas, …, D), sizes (…, D) that errors are in proportion to → (…, D)."""
    square = (error**2).mean(axis=0)
    mean = np.maximum(sizes.mean(axis=-1, keepdims=True), np.finfo(float).tiny)
    spread = square.mean(axis=-1, keepdims=True) * np.maximum(sizes / mean, 1.0)
    return np.sqrt(np.maximum(square, spread))


def _noise(std: Float64) -> Noise:
    return Noise(TAIL * std, std, np.zeros_like(std))
