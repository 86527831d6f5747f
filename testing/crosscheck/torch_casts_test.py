"""The codecs against torch's casts: every code and every bf16 and fp16 input.

torch up to 2.12 casts what is larger than 464 to NaN, torch 2.13 to ±448. The oracle saturates: a
layer that casts without a clamp is right with one torch and wrong with the other.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from testing.oracles.arrays import Float64
from testing.oracles.codecs import e4m3, e8m0
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.inputs import finite_bf16, finite_fp16

ALL: Codes = np.arange(256, dtype=np.uint8)
LAST_TIE = 464.0


def read(codes: torch.dtype) -> Float64:
    """All 256 codes of a dtype as torch decodes them."""
    return torch.from_numpy(ALL.copy()).view(codes).to(torch.float64).numpy()


def cast(x: Float64, source: torch.dtype, target: torch.dtype) -> Codes:
    return torch.from_numpy(x).to(source).to(target).view(torch.uint8).numpy()


def test_every_code_is_decoded_alike() -> None:
    np.testing.assert_array_equal(read(torch.float8_e4m3fn), e4m3.decode(ALL))
    np.testing.assert_array_equal(read(torch.float8_e8m0fnu), e8m0.decode(ALL))


@pytest.mark.parametrize(
    ("values", "source"),
    [
        (finite_bf16(), torch.bfloat16),
        (finite_fp16(), torch.float16),
        (finite_bf16(), torch.float32),
    ],
    ids=["bf16", "fp16", "float32"],
)
def test_every_input_is_encoded_alike(values: Float64, source: torch.dtype) -> None:
    within = np.abs(values) <= LAST_TIE
    got = cast(values, source, torch.float8_e4m3fn)
    np.testing.assert_array_equal(got[within], e4m3.encode(values[within]))
    beyond = np.unique(got[~within] & 0x7F).tolist()
    assert beyond in ([e4m3.NAN], [0x7E]), "neither NaN nor 448 alone"
    clamped = cast(np.clip(values, -448, 448), source, torch.float8_e4m3fn)
    np.testing.assert_array_equal(clamped, e4m3.encode(values))


def test_powers_of_two_are_e8m0_codes() -> None:
    powers = e8m0.decode(ALL[:255])
    np.testing.assert_array_equal(cast(powers, torch.float32, torch.float8_e8m0fnu), ALL[:255])
    np.testing.assert_array_equal(e8m0.floor_scale(powers, 0), ALL[:255])
    np.testing.assert_array_equal(e8m0.ceil_scale(powers, 1.0), ALL[:255])
    np.testing.assert_array_equal(e8m0.even_scale(powers, 0, 3), ALL[:255])
