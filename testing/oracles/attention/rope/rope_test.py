"""The rotary oracle against complex numbers, its own invariants and frequencies worked by hand."""

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.attention.rope.rope import Llama3, Rope, Yarn, rotate, rotation_bound

POSITIONS = np.array([0, 1, 2, 17, 4095, 163839])


def drawn(dim: int, heads: int = 3) -> Float64:
    return np.asarray(np.random.default_rng(dim).standard_normal((len(POSITIONS), heads, dim)))


@pytest.mark.parametrize("dim", [2, 8, 64])
def test_gptj_is_a_product_of_complex_numbers(dim: int) -> None:
    x = drawn(dim)
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(
        1j * POSITIONS[:, None, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
    )
    got = rotate(x, POSITIONS, Rope(dim))
    np.testing.assert_allclose(got[..., 0::2], turned.real, atol=1e-10)
    np.testing.assert_allclose(got[..., 1::2], turned.imag, atol=1e-10)


def test_neox_is_gptj_with_its_values_in_another_order() -> None:
    x, order = drawn(64), np.arange(64).reshape(2, 32).T.ravel()
    neox = rotate(x, POSITIONS, Rope(64, style="neox"))
    np.testing.assert_array_equal(neox[..., order], rotate(x[..., order], POSITIONS, Rope(64)))


def test_a_logit_depends_on_the_distance_alone() -> None:
    rope, q, k = Rope(64), drawn(64)[:1], drawn(64)[1:2]
    logits = [
        (rotate(q, np.array([p]), rope) * rotate(k, np.array([p - 7]), rope)).sum()
        for p in (7, 19, 5000)
    ]
    np.testing.assert_allclose(logits, logits[0], rtol=1e-11)


def test_position_nought_turns_nothing() -> None:
    x = drawn(64)[:1]
    np.testing.assert_array_equal(rotate(x, np.array([0]), Rope(64)), x)


def test_yarn_as_deepseek_v3_has_it() -> None:
    # 64·ln(4096/(turns·2π))/(2·ln 10000) is 10.47 for 32 turns and 22.51 for one: pairs up to 10
    # keep their frequency, those from 23 on are forty times slower, pair 12 is 2/13 of the way.
    yarn = Yarn(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
    plain, scaled = Rope(64).frequencies(), Rope(64, scaling=yarn).frequencies()
    np.testing.assert_array_equal(scaled[:11], plain[:11])
    np.testing.assert_allclose(scaled[23:], plain[23:] / 40, rtol=1e-15)
    np.testing.assert_allclose(scaled[12] / plain[12], 1 - 2 / 13 * (1 - 1 / 40), rtol=1e-14)
    assert Rope(64, scaling=yarn).magnitude() == 1.0
    # 0.1·ln 40 + 1
    assert Rope(64, scaling=Yarn(40.0, 4096)).magnitude() == pytest.approx(1.3688879454)


def test_yarn_as_gpt_oss_has_it() -> None:
    # 64·ln(4096/(turns·2π))/(2·ln 150000) is 8.0928 for 32 turns and 17.3980 for one, not rounded:
    # pair 12 is 3.9072/9.3052 of the way.
    yarn = Yarn(32.0, 4096, truncate=False)
    ratio = Rope(64, 150000.0, scaling=yarn).frequencies() / Rope(64, 150000.0).frequencies()
    np.testing.assert_array_equal(ratio[:9], 1.0)
    np.testing.assert_allclose(ratio[18:], 1 / 32, rtol=1e-15)
    np.testing.assert_allclose(ratio[12], 1 - 3.9072 / 9.3052 * (1 - 1 / 32), rtol=1e-5)


def test_llama3_as_its_config_has_it() -> None:
    # Wavelengths below 8192/4 stay, those beyond 8192/1 are eight times longer.
    rope = Rope(128, 500000.0, "neox", Llama3(8.0, 8192))
    ratio = rope.frequencies() / Rope(128, 500000.0).frequencies()
    wavelength = 2 * np.pi / Rope(128, 500000.0).frequencies()
    assert (ratio[wavelength < 2048] == 1).all()
    np.testing.assert_allclose(ratio[wavelength > 8192], 1 / 8, rtol=1e-15)
    between = ratio[(wavelength > 2048) & (wavelength < 8192)]
    assert ((between > 1 / 8) & (between < 1)).all() and (np.diff(between) < 0).all()


@pytest.mark.parametrize("style", ["gptj", "neox"])
def test_float32_arithmetic_stays_within_the_bound(style: str) -> None:
    rope, x = Rope(64, style=style, scaling=Yarn(40.0, 4096)), drawn(64, 64)
    angle = POSITIONS[:, None] * rope.frequencies()
    cos = (np.cos(angle) * rope.magnitude()).astype(np.float32)[:, None]
    sin = (np.sin(angle) * rope.magnitude()).astype(np.float32)[:, None]
    if style == "neox":
        a, b = np.split(x.astype(np.float32), 2, axis=-1)
    else:
        a, b = x.astype(np.float32)[..., 0::2], x.astype(np.float32)[..., 1::2]
    first, second = a * cos - b * sin, b * cos + a * sin
    if style == "neox":
        got = np.concatenate([first, second], axis=-1)
    else:
        got = np.stack([first, second], axis=-1).reshape(x.shape)
    x32: Float64 = x.astype(np.float32).astype(np.float64)
    error = np.abs(got - rotate(x32, POSITIONS, rope))
    bound = rotation_bound(x32, rope)
    assert (error <= bound).all()
    # And not by far: half of it happens.
    assert (error / bound).max() > 0.3
