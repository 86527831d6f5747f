"""What every activation quantiser has to do inside a layer, read through an identity weight."""

from __future__ import annotations

import numpy as np

from testing.harness.backends import refusing_shapes_only
from testing.harness.device import device, promised
from testing.harness.linear import LinearCase, LoadedLinear, Method, build
from testing.harness.linear_probes import ActivationCodes, examine
from testing.oracles.checkpoints import identity_checkpoint
from testing.oracles.probes import natural

Backends = dict[str, list[str]]
# (M, K): several blocks, a tail of 128 and of 32, one block.
SHAPES = [(64, 1024), (5, 1056), (128, 352), (33, 64)]


def on_every_backend(*methods: tuple[Method, Backends]) -> list[tuple[Method, str]]:
    """Each method with each backend that this pool promises for it."""
    return [(method, backend) for method, table in methods for backend in promised(table)]


def names_of(pairs: list[tuple[Method, str]]) -> list[str]:
    """`fp8_block-triton`, for pytest."""
    return [f"{method.format.name}-{backend}" for method, backend in pairs]


def identity_layer(
    method: Method, backend: str, m: int, k: int, dtype: str = "bfloat16"
) -> LoadedLinear:
    """A layer whose output is x̂."""
    case = LinearCase(method, "column", m, {"": k}, k, dtype=dtype, backend=backend)
    return build(case, identity_checkpoint(method.format, k), device())


def require_codes(method: Method, backend: str, dtype: str, m: int, k: int) -> None:
    """The layer's x̂ has the declared rule's codes, and their noise; or K does not suit it."""
    case = LinearCase(method, "column", m, {"": k}, k, dtype=dtype, backend=backend)
    checkpoint = identity_checkpoint(method.format, k)
    with refusing_shapes_only(case):
        loaded = build(case, checkpoint, device())
        examine(loaded, checkpoint, np.random.default_rng(m * k), [ActivationCodes()]).require()


def require_leading_dimensions(method: Method, backend: str, m: int) -> None:
    """x (2, m, 512) gives (2, m, 512), and m may be 0."""
    loaded = identity_layer(method, backend, max(m, 1), 512)
    x = natural(np.random.default_rng(1), 2 * m, 512)
    got = loaded(x.reshape(2, m, 512))
    assert got.shape == (2, m, 512)
    if m:
        assert np.array_equal(got.reshape(2 * m, 512), loaded(x))


def require_rows_apart(method: Method, backend: str) -> None:
    """A token's codes do not depend on the others: alone or among them, the same bits."""
    loaded = identity_layer(method, backend, 8, 512)
    x = natural(np.random.default_rng(2), 8, 512)
    together = loaded(x)
    alone = np.concatenate([loaded(x[i : i + 1]) for i in range(8)])
    assert np.array_equal(together, alone)
