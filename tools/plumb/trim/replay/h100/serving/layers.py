"""Stands in for the layers' own tests."""

from __future__ import annotations


def largest_error(kind: str, backend: str, heads: int, head_dim: int) -> float:
    """Of a layer's output against its reference."""
    raise RuntimeError(f"no {backend} kernels for {kind}, {heads} heads of {head_dim}")


def int8_error(scheme: str, rows: int, columns: int) -> float:
    """Of an int8 linear layer's output against the dequantised reference."""
    raise RuntimeError(f"no int8 layer of {rows} x {columns} by {scheme}")
