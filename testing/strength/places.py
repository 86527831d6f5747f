"""How the checks name the places of faults in a layer of two shards, gate and up."""

from __future__ import annotations

Named = tuple[str, str]

# Of findings that are not one part's.
WHOLE: Named = ("gain", "the whole output")
ELEMENTS: Named = ("element", "elements")
SPREAD: Named = ("spread", "other rows")
GATE: Named = ("shard", "shard 'gate'")
UP: Named = ("shard", "shard 'up'")


def cell(row: int, k: int, shard: str = "gate") -> Named:
    """The first wrong weight cell that the readback names."""
    return "cell", f"shard '{shard}', row {row} of shard '{shard}', k {k}"


def column(number: int, shard: str) -> Named:
    """A biased column."""
    return "column", f"column {number} of shard '{shard}'"


def tile(row: int, block: int, shard: str) -> Named:
    """A biased 128x128 tile."""
    return "tile", f"tile ({row}, {block}) of shard '{shard}'"


def k_block(block: int, shard: str | None = None) -> Named:
    """A biased block of 128 along K, of all columns or of a shard's."""
    place = f"K block {block} (k {128 * block}..{128 * block + 127})"
    return ("shard_k_block", f"{place} of shard '{shard}'") if shard else ("k_block", place)


def output(row: int, number: int, shard: str) -> str:
    """One output."""
    return f"row {row}, column {number} of shard '{shard}'"
