"""The fp8 activation quantisers inside real layers."""

import pytest

import layers.quantization.fp8
import layers.quantization.w8a8_fp8  # noqa: F401 both register themselves
from testing.harness.linear import Method
from testing.quant.activation_checks import (
    SHAPES,
    names_of,
    on_every_backend,
    require_codes,
    require_leading_dimensions,
    require_rows_apart,
)
from testing.quant.fp8.methods import (
    BLOCK,
    BLOCK_BACKENDS,
    CHANNEL,
    DYNAMIC,
    SCALED_BACKENDS,
    STATIC,
)

PAIRS = on_every_backend(
    (DYNAMIC, SCALED_BACKENDS),
    (STATIC, SCALED_BACKENDS),
    (CHANNEL, SCALED_BACKENDS),
    (BLOCK, BLOCK_BACKENDS),
)
EACH = pytest.mark.parametrize(("method", "backend"), PAIRS, ids=names_of(PAIRS))


@EACH
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_codes_follow_the_rule(method: Method, backend: str, dtype: str, m: int, k: int) -> None:
    require_codes(method, backend, dtype, m, k)


@EACH
@pytest.mark.parametrize("m", [0, 1, 3])
def test_leading_dimensions_and_empty_batches(method: Method, backend: str, m: int) -> None:
    require_leading_dimensions(method, backend, m)


@EACH
def test_rows_do_not_see_each_other(method: Method, backend: str) -> None:
    require_rows_apart(method, backend)
