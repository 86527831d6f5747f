"""The layers that every linear quantisation method is tested with."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace

from testing.harness.linear import LinearCase, Method

# (M, N, K): shapes that the field tests, then K with a tail and N off the block size.
COLUMN_SHAPES = [
    (64, 512, 512),
    (5, 384, 896),
    (5, 160, 336),
    (5, 384, 768),
    (64, 256, 512),
    (128, 1024, 1024),
    (16, 256, 1040),
    (16, 200, 1056),
    (7, 128, 48),
    (3, 136, 16),
    (1, 384, 512),
]
# A shape that only kernels without alignment needs can take.
ODD_SHAPE = (9, 201, 100)


def linear_cases(method: Method, block: int = 1) -> list[LinearCase]:
    """Every layer kind, bf16 and fp16, with and without bias, fused on disk and not.

    Shard sizes are multiples of 128 but for the last, so that a block format can take them all.

    block: of K, which the format cannot cut; a K with a tail becomes the next that it can hold.
    """

    def case(kind: str, m: int, shards: Mapping[str, int], k: int) -> LinearCase:
        return LinearCase(method, kind, m, shards, -(-k // block) * block)

    columns = [case("column", m, {"": n}, k) for m, n, k in COLUMN_SHAPES]
    merged = case("merged", 16, {"gate": 256, "up": 256}, 512)
    uneven = case("merged", 5, {"gate": 384, "up": 160}, 1040)
    qkv = case("qkv", 16, {"q": 512, "k": 128, "v": 128}, 512)
    row = case("row", 5, {"": 384}, 896)
    return [
        *columns,
        *(replace(c, dtype="float16", bias=True) for c in columns[1:3]),
        replace(columns[6], bias=True),
        merged,
        replace(merged, fused=True, bias=True),
        uneven,
        replace(uneven, dtype="float16", fused=True),
        qkv,
        replace(qkv, fused=True, dtype="float16"),
        case("qkv", 5, {"q": 256, "k": 128, "v": 128}, 1056),
        row,
        replace(row, bias=True, dtype="float16"),
        case("row", 33, {"": 200}, 1040),
        case("replicated", 5, {"": 160}, 336),
        case("replicated", 64, {"": 256}, 512),
    ]


def one_scale_cases(method: Method) -> list[LinearCase]:
    """Shards with equal 0-dim scales, on disk one by one, and fused under one scalar."""
    merged = LinearCase(method, "merged", 16, {"gate": 256, "up": 256}, 512, one_scale=True)
    qkv = LinearCase(method, "qkv", 5, {"q": 256, "k": 128, "v": 128}, 1056, one_scale=True)
    return [merged, replace(merged, fused=True), replace(qkv, fused=True, dtype="float16")]


def odd_case(method: Method, block: int = 1) -> LinearCase:
    """A column layer of `ODD_SHAPE`."""
    m, n, k = ODD_SHAPE
    return LinearCase(method, "column", m, {"": n}, -(-k // block) * block)


def float32_case(method: Method, block: int = 1) -> LinearCase:
    """A merged layer whose inputs and outputs are float32: no rounding hides fp32 arithmetic."""
    shards, k = {"gate": 256, "up": 160}, -(-1040 // block) * block
    return LinearCase(method, "merged", 9, shards, k, dtype="float32", bias=True)


def case_id(case: LinearCase) -> str:
    """`merged-M16-N256+256-K512-bfloat16-fused`, for pytest."""
    flags = "-bias" * case.bias + "-fused" * case.fused + "-one_scale" * case.one_scale
    return f"{case.kind}-{case.shape.replace(' ', '')}-{case.dtype}{flags}"


def seed_of(case: LinearCase) -> int:
    """A seed of the case's own, the same in every run and on every backend."""
    return zlib.crc32(case_id(case).encode())


def every_case(method: Method, block: int = 1) -> list[LinearCase]:
    """`linear_cases`, and sizes and a dtype that only some kernels take."""
    return [*linear_cases(method, block), odd_case(method, block), float32_case(method, block)]
