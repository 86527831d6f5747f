"""The calls that every backend of the gated delta rule is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from testing.attention.gdn.layer import SMALL, GdnCase
from testing.oracles.attention.gdn.gdn import GdnShape

# Lengths around a chunk of 64 tokens, and shorter than the convolution is wide.
EDGES = GdnCase("extend", (63, 64, 65, 1))
SHORT = GdnCase("extend", (1, 2, 3, 4, 5))
SEVERAL_CHUNKS = GdnCase("extend", (127, 128, 129))
FRESH = replace(EDGES, initial=(False,) * 4)
MIXED = replace(EDGES, lengths=(65, 64, 3, 2, 130), initial=(True, False, True, False, False))
MIXED_SHORT = replace(SHORT, initial=(False, True, False, True, False), shuffled=False)
ONE = GdnCase("extend", (200,), (False,))
EXTEND = [EDGES, SHORT, SEVERAL_CHUNKS, FRESH, MIXED, MIXED_SHORT, ONE]
DECODE = [
    GdnCase("decode", (1,)),
    GdnCase("decode", (1,) * 7),
    GdnCase("decode", (1,) * 33, shuffled=False),
]
# Gates far on either side of 0, where softplus is its argument and sigmoid 0 or 1.
WIDE = [replace(case, spread=8.0) for case in (MIXED, DECODE[1])]
# Tokens without a key or a query, which have no direction.
BLANK = [replace(MIXED, blank=5), replace(FRESH, blank=2)]
LONG = GdnCase("extend", (8192,), (False,))
"""Examined with eight replicas, to save time."""
SHAPES = [
    # Every head its own keys; four value heads to a key head; keys longer than values; narrow taps.
    GdnShape(k_heads=3, v_heads=3, k_dim=32, v_dim=32),
    GdnShape(k_heads=1, v_heads=4, k_dim=64, v_dim=32),
    GdnShape(k_heads=2, v_heads=4, k_dim=16, v_dim=64),
    replace(SMALL, width=2),
]


def on(cases: Sequence[GdnCase], backend: str, shape: GdnShape = SMALL) -> list[GdnCase]:
    """The same calls of layers of another backend and size."""
    return [replace(case, backend=backend, shape=shape) for case in cases]


def every_shape(backend: str, shapes: Sequence[GdnShape] = SHAPES) -> list[GdnCase]:
    """A call of each mode for each shape."""
    return [
        replace(case, backend=backend, shape=shape)
        for shape in shapes
        for case in (MIXED, DECODE[1])
    ]


def case_id(case: GdnCase) -> str:
    """Short, for pytest."""
    lengths = "+".join(map(str, case.lengths[:8])) + ("+…" if len(case.lengths) > 8 else "")
    states = "".join("s" if brings else "-" for brings in case.brings[:8])
    s = case.shape
    order = "" if case.shuffled else " ordered"
    order += f" gates {case.spread:g}" * (case.spread != 1) + f" blank {case.blank}" * bool(
        case.blank
    )
    return (
        f"{case.dtype} {case.mode} {lengths} {states}{order} {s.k_heads}x{s.k_dim} "
        f"{s.v_heads}x{s.v_dim} W{s.width}"
    )
