"""The noise is that of its formula, the same whoever asks, and unlike any other place's."""

import numpy as np
import torch

from layers.serving.sampling.noise import gumbel

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    """SplitMix64's finaliser, in Python's whole numbers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def test_splitmix64_gives_its_published_numbers() -> None:
    # The first outputs for seed 1234567, as the reference implementation's test has them.
    state, outputs = 1234567, []
    for _ in range(3):
        state = (state + GOLDEN) & MASK
        outputs.append(mix(state))
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_the_noise_is_that_of_whole_numbers() -> None:
    seeds, places = [0, 1, 2**63 - 1, 123456789], [0, 5, 70000, 2**31]
    got = gumbel(torch.tensor(seeds), torch.tensor(places), 7).numpy()
    for row, (seed, place) in enumerate(zip(seeds, places, strict=True)):
        key = mix(mix((seed + GOLDEN) & MASK) ^ (place * GOLDEN & MASK))
        bits = [mix((key + token * GOLDEN) & MASK) for token in range(7)]
        uniform = np.array([((b >> 12) + 0.5) / 2**52 for b in bits])
        # Two logarithms, each right to a last digit, of numbers that are exact.
        np.testing.assert_allclose(got[row], -np.log(-np.log(uniform)), rtol=1e-13, atol=1e-13)


def test_a_row_alone_is_the_row_among_others() -> None:
    seeds, places = torch.arange(50), torch.arange(50) * 3
    together = gumbel(seeds, places, 100)
    for row in (0, 17, 49):
        alone = gumbel(seeds[row : row + 1], places[row : row + 1], 100)
        assert torch.equal(alone[0], together[row])


def test_seeds_places_and_tokens_do_not_repeat_each_other() -> None:
    seeds = torch.arange(64).repeat_interleave(64)
    places = torch.arange(64).repeat(64)
    noise = gumbel(seeds, places, 64).flatten()
    assert len(noise.unique()) == 64**3
    assert torch.isfinite(noise).all()
