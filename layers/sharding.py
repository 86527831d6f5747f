"""Which part of a full checkpoint tensor a rank holds, and where it lies in the rank's tensor.

Everything here is counted in weights (rows of N outputs, columns of K inputs). A parameter
whose elements cover more than one weight, such as the scale of a 128x128 block, converts with
`Span.grouped`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsIndex

ShardId = int | str | None


def ceil_div(value: int, unit: int) -> int:
    """`value / unit`, rounded up."""
    return -(-value // unit)


def check_integers(layer: str, **sizes: object) -> None:
    """Refuses sizes that are no integers, such as 64.0 or "64" of a configuration file.

    Args:
        layer: the layer's name, for the message.
        sizes: by name, with blanks written as underscores.

    Raises:
        ValueError: naming the first.
    """
    for name, size in sizes.items():
        if not isinstance(size, SupportsIndex) or isinstance(size, bool):
            raise ValueError(
                f"layer '{layer}': {name.replace('_', ' ')} is {size!r}, wanted an integer. "
                f"Correct the model's configuration."
            )


@dataclass(frozen=True)
class Span:
    """The part `[start, start + size)` of an axis of length `total`."""

    total: int
    start: int
    size: int

    @classmethod
    def whole(cls, total: int) -> Span:
        """All of an axis: no rank shares it."""
        return cls(total, 0, total)

    @classmethod
    def part(cls, total: int, rank: int, ranks: int) -> Span:
        """The part of rank `rank` where `ranks` divide the axis evenly; `ranks` divides `total`."""
        size = total // ranks
        return cls(total, rank * size, size)

    def is_aligned(self, unit: int) -> bool:
        """Whether the part starts and ends on a multiple of `unit`, or ends where the axis does."""
        end = self.start + self.size
        return self.start % unit == 0 and (end % unit == 0 or end == self.total)

    def grouped(self, unit: int) -> Span:
        """The same part counted in groups of `unit`; the last group of the axis may be ragged.

        Raises:
            ValueError: the part starts or ends inside a group.
        """
        if not self.is_aligned(unit):
            raise ValueError(
                f"the part [{self.start}, {self.start + self.size}) of {self.total} starts or ends "
                f"inside a group of {unit}. Divide the axis at multiples of {unit}."
            )
        return Span(ceil_div(self.total, unit), self.start // unit, ceil_div(self.size, unit))


@dataclass(frozen=True)
class Shard:
    """One checkpoint tensor of a layer: the rows this rank takes and where it puts them.

    `id` is None for a layer of one shard, an index for merged layers, "q", "k" or "v" for QKV.
    `rows` is a span of the checkpoint tensor; `offset` is a row of the rank's own tensor.
    """

    id: ShardId
    rows: Span
    offset: int


@dataclass(frozen=True)
class LinearLayout:
    """How a linear layer's weight (N, K) divides into shards along N and over ranks along N or K.

    `name` is the layer's prefix, for messages. `inputs` is the span of K that this rank holds.
    """

    name: str
    shards: tuple[Shard, ...]
    inputs: Span

    @classmethod
    def stacked(
        cls, name: str, spans: Iterable[tuple[ShardId, Span]], inputs: Span
    ) -> LinearLayout:
        """The layout whose shards lie one under the other in the rank's weight.

        Raises:
            ValueError: a size below 1, or no integer.
        """
        check_integers(name, input_size=inputs.size)
        shards: list[Shard] = []
        offset = 0
        for shard_id, rows in spans:
            check_integers(name, output_size=rows.size)
            if min(rows.size, inputs.size) < 1:
                raise ValueError(
                    f"layer '{name}': shard {shard_id!r} has {rows.size} outputs and {inputs.size} "
                    f"inputs on this rank, wanted at least 1 of each. Correct the layer's sizes."
                )
            shards.append(Shard(shard_id, rows, offset))
            offset += rows.size
        return cls(name, tuple(shards), inputs)

    @property
    def rows(self) -> int:
        """Rows of the rank's own weight."""
        last = self.shards[-1]
        return last.offset + last.rows.size

    @property
    def shard_ids(self) -> tuple[ShardId, ...]:
        """Ids of the shards, in order."""
        return tuple(shard.id for shard in self.shards)

    def check_blocks(self, parameter: str, block_rows: int, block_columns: int) -> None:
        """Refuses a layout whose boundaries cut through what one element of a parameter stands for.

        That is the block of a scale, or the values packed into one byte. A ragged block at the very
        end of N or of K is fine: no other shard or rank shares it.

        Args:
            parameter: its name within the layer, for the message.
            block_rows, block_columns: of the weight, for one element.

        Raises:
            ValueError: naming layer, shard, size and block.
        """
        for shard in self.shards:
            last = shard is self.shards[-1]
            inside = shard.rows.is_aligned(block_rows) and shard.offset % block_rows == 0
            if inside and (last or shard.rows.size % block_rows == 0):
                continue
            label = f"shard {shard.id!r}" if shard.id is not None else "its weight"
            raise ValueError(
                f"layer '{self.name}': {label} has {shard.rows.size} of {shard.rows.total} rows on "
                f"this rank, starting at row {shard.rows.start}, which cuts through an element of "
                f"its {parameter}, {block_rows} rows. Every shard but the last, and every rank's "
                f"part, must be a multiple of {block_rows} rows: use a smaller tensor parallel "
                f"size, load the shards as separate layers, or leave this layer unquantised."
            )
        if not self.inputs.is_aligned(block_columns):
            raise ValueError(
                f"layer '{self.name}': this rank holds {self.inputs.size} of {self.inputs.total} "
                f"input columns, starting at {self.inputs.start}, which cuts through an element of "
                f"its {parameter}, {block_columns} columns. Each rank's part of K must be a "
                f"multiple of {block_columns}: use a smaller tensor parallel size."
            )
