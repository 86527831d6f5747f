"""The activation quantiser inside a real layer: read back through an identity weight."""

from dataclasses import replace

import numpy as np
import pytest

import layers.quantization.blockwise_int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from testing.harness.device import device, promised
from testing.harness.linear import LinearCase, Method, build
from testing.harness.linear_probes import ActivationCodes, examine
from testing.oracles.checkpoints import identity_checkpoint
from testing.quant.int8.methods import BLOCK, BLOCK_BACKENDS, CHANNEL, CHANNEL_BACKENDS

BACKENDS = [(CHANNEL, b) for b in promised(CHANNEL_BACKENDS)]
BACKENDS += [(BLOCK, b) for b in promised(BLOCK_BACKENDS)]


@pytest.mark.parametrize(
    ("method", "backend"), BACKENDS, ids=[f"{m.format.name}-{b}" for m, b in BACKENDS]
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("m", "k"), [(64, 1024), (128, 336), (5, 1040), (33, 48)])
def test_codes_follow_the_rule(method: Method, backend: str, dtype: str, m: int, k: int) -> None:
    case = LinearCase(method, "column", m, {"": k}, k, dtype=dtype, backend=backend)
    checkpoint = identity_checkpoint(method.format, k)
    loaded = build(case, checkpoint, device())
    rng = np.random.default_rng(m * k)
    examine(loaded, checkpoint, rng, [ActivationCodes()]).require()


@pytest.mark.parametrize("method", [CHANNEL, BLOCK], ids=["channel", "block"])
@pytest.mark.parametrize("m", [0, 1, 3])
def test_leading_dimensions_and_empty_batches(method: Method, m: int) -> None:
    case = LinearCase(method, "column", m, {"": 128}, 128)
    loaded = build(case, identity_checkpoint(method.format, 128), device())
    x = (
        method.format.activations({})
        .lossless(np.random.default_rng(1), 2 * m, 128)
        .reshape(2, m, 128)
    )
    assert np.array_equal(loaded(x), x)


@pytest.mark.parametrize("method", [CHANNEL, BLOCK], ids=["channel", "block"])
def test_rows_do_not_see_each_other(method: Method) -> None:
    case = LinearCase(method, "column", 8, {"": 256}, 256)
    rng = np.random.default_rng(2)
    loaded = build(
        replace(case, shards={"": 136}), replace(case, shards={"": 136}).checkpoint(rng), device()
    )
    x = method.format.activations({}).lossless(rng, 8, 256)
    together = loaded(x)
    alone = np.concatenate([loaded(x[i : i + 1]) for i in range(8)])
    assert np.array_equal(together, alone)
