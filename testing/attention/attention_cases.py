"""The layers and calls that every backend of dense and sliding-window attention is tested with."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from testing.harness.attention.case import (
    TREE,
    AttentionCase,
    Call,
    around_a_page_edge,
    on_backend,
    prefixes,
)
from testing.harness.device import pool

PLAIN = AttentionCase(16, 2, 64)
"""Eight query heads to each of two key-value heads."""

LAYERS: Mapping[str, AttentionCase] = {
    "gqa": PLAIN,
    "gqa_fp16": replace(PLAIN, dtype="float16"),
    "page_1": replace(PLAIN, page_size=1),
    "page_1_fp16": replace(PLAIN, page_size=1, dtype="float16"),
    "page_32": replace(PLAIN, page_size=32, dtype="float16"),
    "page_64": replace(PLAIN, page_size=64),
    "mha": AttentionCase(4, 4, 128),
    "mqa": AttentionCase(8, 1, 128, dtype="float16"),
    "group_of_three": AttentionCase(6, 2, 64, page_size=32),
    "group_of_twelve": AttentionCase(12, 1, 64),
    "head_256": AttentionCase(4, 2, 256, page_size=64),
    "values_narrower": AttentionCase(4, 2, 192, v_head_dim=128),
    "scaled": AttentionCase(8, 2, 128, scaling=0.2),
    "cap": AttentionCase(8, 2, 128, soft_cap=5.0),
    "cap_page_1": AttentionCase(8, 4, 64, soft_cap=30.0, page_size=1, dtype="float16"),
    "sinks": AttentionCase(16, 2, 64, sinks=True),
    "sinks_fp16": AttentionCase(8, 1, 128, sinks=True, dtype="float16", page_size=64),
    "sinks_page_1": AttentionCase(8, 8, 64, sinks=True, page_size=1),
    "fp8": AttentionCase(8, 1, 128, fp8=True),
    "fp8_fp16": AttentionCase(8, 2, 64, fp8=True, dtype="float16", page_size=64),
    "fp8_page_1": AttentionCase(8, 2, 128, fp8=True, page_size=1, scales=(0.0113, 0.31)),
    "fp8_sinks": AttentionCase(8, 2, 64, fp8=True, sinks=True, page_size=32),
    "fp8_cap": AttentionCase(8, 2, 128, fp8=True, soft_cap=5.0),
}

_PREFIXES = (0, 14, 15, 16, 30, 31, 32, 63, 64, 100)
_MANY = tuple(range(0, 70, 2))

CALLS: Mapping[str, list[Call]] = {
    "extend": [
        Call("extend", around_a_page_edge(16)),
        Call("extend", around_a_page_edge(32), order="descending"),
        Call("extend", around_a_page_edge(64)[::3], order="interleaved", split=False),
        Call("extend", ((0, 1),), order="ascending"),
        Call("extend", ((0, 1), (0, 130), (0, 2)), order="ascending"),
        Call("extend", ((200, 40), (0, 1), (129, 1)), order="shuffled"),
        Call("extend", ((70, 17), (64, 5), (3, 16)), order="shuffled", shared_pages=4),
        Call("extend", ((16, 3), (17, 20)), order="interleaved", shared_pages=1, split=False),
    ],
    "decode": [
        Call("decode", prefixes([0]), order="ascending"),
        Call("decode", prefixes(_PREFIXES)),
        Call("decode", prefixes(_PREFIXES), order="descending", split=False),
        Call("decode", prefixes(_PREFIXES), order="interleaved"),
        Call("decode", prefixes(_MANY)),
        Call("decode", prefixes([600, 3, 255, 256, 257])),
        Call("decode", prefixes([90, 64, 15]), shared_pages=4),
        Call("decode", prefixes([16, 17]), order="interleaved", shared_pages=1),
    ],
    # As many drafts as make one tile of a kernel, whose compiler takes most of a GPU's time.
    "draft": [
        Call("draft", prefixes(_PREFIXES, 6)),
        Call("draft", prefixes([0, 13, 48, 300], 8), order="descending", split=False),
        Call("draft", prefixes(_PREFIXES, 7), TREE),
        Call("draft", prefixes([9], 7), TREE, order="ascending"),
        Call("draft", prefixes([64, 70, 0], 7), TREE, order="interleaved", shared_pages=4),
        Call("draft", prefixes([40, 7], 6), (-1, -1, 0, 1, 1, 2), split=False),
        Call("draft", prefixes([0, 15, 33], 6), all_drafts=True),
    ],
}

FEW: Mapping[str, list[Call]] = {
    "extend": [Call("extend", ((16, 3), (0, 4), (31, 2)))],
    "draft": [
        Call("draft", prefixes([0, 15, 16, 63], 1), order="ascending"),
        Call("draft", prefixes(_PREFIXES, 4)),
    ],
}
"""A few tokens to a request: other tiles of a kernel."""

LONG: Mapping[str, list[Call]] = {
    "extend": [Call("extend", ((8175, 17), (1, 15), (4100, 3)))],
    "decode": [Call("decode", prefixes([8191, 0, 8000, 31]))],
    "draft": [Call("draft", prefixes([8185, 100], 7), TREE)],
}

GARBAGE: Mapping[str, list[Call]] = {
    mode: [replace(CALLS[mode][i], garbage=number) for i, number in ((1, 2**30), (-1, -(2**31)))]
    for mode in CALLS
}
"""Page tables that hold no page's number past a request's pages."""


ON_A_GPU: Mapping[str, Sequence[str]] = {
    "torch": ["gqa", "page_1_fp16", "mqa", "cap", "fp8_fp16", "sinks"],
    "triton": [
        *("gqa", "page_1_fp16", "mqa", "group_of_three", "head_256", "values_narrower"),
        *("cap", "sinks_fp16", "fp8_sinks"),
    ],
    # FlashInfer compiles for a minute for each dtype, head size, window, cap and cache of fp8.
    "flashinfer": ["gqa", "page_1", "page_64", "group_of_three", "group_of_twelve"],
}
"""Layers that a backend is tested with there: its compiler takes most of the time."""

FLASHINFER_KINDS = ("cap", "fp8", "head_256", "mqa", "sinks")
"""Layers for which FlashInfer compiles kernels of their own."""

WINDOWS = (33, 7, 15, 16, 17, 1, 64, 100, 128, 4096)
"""Smaller than, about and larger than contexts and pages."""


def windowed(layers: Mapping[str, AttentionCase]) -> dict[str, AttentionCase]:
    """Each layer in a window of its own."""
    return {
        name: replace(case, window=WINDOWS[i % len(WINDOWS)])
        for i, (name, case) in enumerate(layers.items())
    }


def layers_of(backend: str, window: bool = False) -> dict[str, AttentionCase]:
    """The layers that a backend is tested with on this pool, on that backend."""
    layers = windowed(LAYERS) if window else dict(LAYERS)
    names = list(layers) if pool() == "cpu" else ON_A_GPU[backend]
    return {name: on_backend(layers[name], backend) for name in names}


def flashinfer_kinds(window: bool = False) -> dict[str, AttentionCase]:
    """The layer of FLASHINFER_KINDS that PLUMBLINE_LAYER names; all of them where it is unset."""
    layers = windowed(LAYERS) if window else dict(LAYERS)
    names = [os.environ["PLUMBLINE_LAYER"]] if "PLUMBLINE_LAYER" in os.environ else FLASHINFER_KINDS
    return {name: on_backend(layers[name], "flashinfer") for name in names}


def takes(case: AttentionCase, mode: str) -> bool:
    """Whether FlashInfer takes a layer in a mode: its variant with sinks has no mask of drafts."""
    return not (case.sinks and mode == "draft")


def templates_of(case: AttentionCase) -> list[Call]:
    """A call for each of the templates that FlashInfer compiles for a layer.

    On sm90 prompts have one of their own, unless the cache is of fp8. They may be compiled side by
    side; the same one twice may not, as FlashInfer writes its sources before it takes the lock.
    """
    return [CALLS[mode][0] for mode in ("extend", "decode") if mode == "decode" or not case.fp8]


def seed_of(case: AttentionCase, mode: str) -> int:
    """The same for the same case."""
    return zlib.crc32(f"{case.subject} {mode}".encode())
