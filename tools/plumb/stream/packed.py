"""Attributes of a rule that stay as Bazel wrote them until somebody asks for one.

Of the hundred thousand rules of a large graph an answer looks at a few; decoding all of them would
take longer than Bazel takes to load them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# How many of the last chunks stay unpacked.
_OPEN_CHUNKS = 16


@dataclass
class Chunks:
    """Messages one after the other, in packed pieces of some hundred kilobytes."""

    packed: list[bytes] = field(default_factory=list)
    _open: dict[int, bytes] = field(default_factory=dict, repr=False)

    def add(self, content: bytes) -> None:
        """Appends a piece."""
        self.packed.append(zlib.compress(content, level=1))

    def message(self, chunk: int, start: int, end: int) -> bytes:
        """The bytes from `start` to `end` of a piece."""
        if chunk not in self._open:
            while len(self._open) >= _OPEN_CHUNKS:
                del self._open[next(iter(self._open))]
            self._open[chunk] = zlib.decompress(self.packed[chunk])
        return self._open[chunk][start:end]


class Packed(Mapping[str, Any]):
    """A rule's attributes, name to canonical value, as `graph.Target` has them.

    known: those that are wanted often, such as a test's tags; they cost no decoding.
    """

    __slots__ = ("_all", "chunks", "known", "place")

    def __init__(
        self, chunks: Chunks, place: tuple[int, int, int], known: Mapping[str, Any]
    ) -> None:
        self.chunks, self.place, self.known = chunks, place, known
        self._all: Mapping[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:
        return self.known[name] if name in self.known else self._decoded()[name]

    def get(self, name: str, default: Any = None) -> Any:
        """As in dict."""
        return self.known[name] if name in self.known else self._decoded().get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return len(self._decoded())

    def _decoded(self) -> Mapping[str, Any]:
        if self._all is None:
            # Most answers look at no attribute, and then need none of this.
            from tools.plumb.stream.decode import decode

            self._all = decode(self.chunks.message(*self.place))
        return self._all
