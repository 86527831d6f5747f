"""Names for the parts of a linear layer's output and weight that a fault can sit in."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shard:
    """Output columns [start, stop) filled from one checkpoint tensor; '' when there is only one."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True)
class Layout:
    """Where shards and tiles lie. Tiles are counted from the start of their shard.

    shards: in output order, without gaps.
    k: reduced dimension, whole.
    tile: (output columns, K columns) of a tile.
    """

    shards: tuple[Shard, ...]
    k: int
    tile: tuple[int, int] = (128, 128)

    @property
    def n(self) -> int:
        """Output columns."""
        return self.shards[-1].stop

    def tile_starts(self) -> list[tuple[Shard, int, int]]:
        """(shard, tile row in the shard, first output column) of every row of tiles."""
        return [
            (shard, i, start)
            for shard in self.shards
            for i, start in enumerate(range(shard.start, shard.stop, self.tile[0]))
        ]

    def shard_of(self, column: int) -> Shard:
        """The shard that an output column belongs to."""
        return next(s for s in self.shards if s.start <= column < s.stop)

    def column_label(self, column: int) -> str:
        """`column 13 of shard 'up'`, counted from the start of the shard."""
        shard = self.shard_of(column)
        return f"column {column - shard.start}{of_shard(shard)}"

    def block_label(self, block: int) -> str:
        """`K block 1 (k 128..255)`."""
        width = self.tile[1]
        last = min(self.k, (block + 1) * width) - 1
        return f"K block {block} (k {block * width}..{last})"


@dataclass(frozen=True)
class Place:
    """A part of the output, or the part of it that one K block adds.

    family: gain, shard, k_block, shard_k_block, tile, row or column.
    rows, columns: of the output.
    k_block: None for the whole product.
    """

    family: str
    label: str
    rows: slice
    columns: slice
    k_block: int | None = None

    def __str__(self) -> str:
        return self.label


def of_shard(shard: Shard) -> str:
    """` of shard 'up'`, or nothing for a layer's only shard."""
    return f" of shard '{shard.name}'" if shard.name else ""


def single_shard(n: int) -> tuple[Shard, ...]:
    """The one shard of a layer that is not fused."""
    return (Shard("", 0, n),)


def consecutive_shards(sizes: dict[str, int]) -> tuple[Shard, ...]:
    """Shards one after another: {'gate': 256, 'up': 256} → gate [0, 256), up [256, 512)."""
    stops = np.cumsum(list(sizes.values()))
    return tuple(
        Shard(name, int(stop) - size, int(stop))
        for (name, size), stop in zip(sizes.items(), stops, strict=True)
    )


def families(layout: Layout, rows: int) -> dict[str, list[Place]]:
    """Every place that the statistics look at, from the largest to the smallest.

    A family that would only repeat a larger one (one shard, one K block) is left out.
    """
    everything, all_columns = slice(0, rows), slice(0, layout.n)
    blocks = range(-(-layout.k // layout.tile[1]))
    shards = [(s, slice(s.start, s.stop)) for s in layout.shards]
    result = {"gain": [Place("gain", "the whole output", everything, all_columns)]}
    if len(shards) > 1:
        result["shard"] = [Place("shard", f"shard '{s.name}'", everything, c) for s, c in shards]
    if len(blocks) > 1:
        result["k_block"] = [
            Place("k_block", layout.block_label(b), everything, all_columns, b) for b in blocks
        ]
    if len(blocks) > 1 and len(shards) > 1:
        result["shard_k_block"] = [
            Place("shard_k_block", layout.block_label(b) + of_shard(s), everything, columns, b)
            for s, columns in shards
            for b in blocks
        ]
    tiles = _tiles(layout, everything, blocks)
    if len(tiles) > len(shards):
        result["tile"] = tiles
    result["row"] = [Place("row", f"row {r}", slice(r, r + 1), all_columns) for r in range(rows)]
    result["column"] = [
        Place("column", layout.column_label(c), everything, slice(c, c + 1))
        for c in range(layout.n)
    ]
    return result


def _tiles(layout: Layout, rows: slice, blocks: range) -> list[Place]:
    starts = layout.tile_starts()
    stops = [start for _, _, start in starts[1:]] + [layout.n]
    return [
        Place("tile", f"tile ({i}, {b}){of_shard(s)}", rows, slice(start, stop), b)
        for b in blocks
        for (s, i, start), stop in zip(starts, stops, strict=True)
    ]
