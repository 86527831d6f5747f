"""A target graph as bytes for the cache.

What every answer needs stands in columns, which load in a fraction of a second; the attributes of
rules follow in packed pieces, which are unpacked when one of them is asked for.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tools.plumb.graph import GENERATED, GROUP, RULE, SOURCE, Graph, Target
from tools.plumb.stream.packed import Chunks, Packed
from tools.plumb.stream.read import ROW_BYTES

_MAGIC = b"plumb\x01"
_KINDS = (RULE, SOURCE, GENERATED, GROUP)
# Labels hold any character but this.
_BETWEEN = "\0"
_NUMBERS = struct.Struct("<IQ")
# Of a target that was not read from a stream.
_NO_ROW = bytes(ROW_BYTES)
_NO_PLACE = (0xFFFFFFFF, 0, 0)


def dump(graph: Graph) -> bytes:
    """The graph as bytes."""
    targets = list(graph.targets.values())
    pieces = _pieces(targets)
    labels = {label: number for number, label in enumerate(graph.targets)}
    for label in sorted(graph.leaves):
        labels[label] = len(labels)
    classes, known = _Table(), _Table()
    columns = [
        _BETWEEN.join(labels).encode(errors="surrogateescape"),
        bytes(_KINDS.index(target.kind) for target in targets),
        bytes(target.all_traits for target in targets),
        b"".join(target.row or _NO_ROW for target in targets),
        _numbers(classes.number(target.rule_class) for target in targets),
        _numbers(known.number(_known(target)) for target in targets),
        _numbers(len(target.deps) for target in targets),
        _numbers(labels[dep] for target in targets for dep in target.deps),
        _numbers(n for target in targets for n in _place(target)),
    ]
    header = {
        "release": graph.release,
        "targets": len(targets),
        "classes": list(classes.numbers),
        "known": list(known.numbers),
    }
    packed = [zlib.compress(part, level=1) for part in [json.dumps(header).encode(), *columns]]
    body = b"".join(_NUMBERS.pack(0, len(part)) + part for part in [*packed, *pieces])
    return _MAGIC + _NUMBERS.pack(zlib.crc32(body), len(body)) + body


def load(data: bytes) -> Graph:
    """The graph that `dump` wrote. Raises ValueError if the bytes are not one, or an empty one."""
    parts = _parts(data)
    header = json.loads(zlib.decompress(parts[0]))
    if not header["targets"] or not header["release"]:
        raise ValueError("not a graph: no target or no release of Bazel")
    columns = [zlib.decompress(part) for part in parts[1:10]]
    return Graph(_targets(header, columns, Chunks(parts[10:])), header["release"])


def _targets(
    header: Mapping[str, Any], columns: Sequence[bytes], chunks: Chunks
) -> dict[str, Target]:
    labels = columns[0].decode(errors="surrogateescape").split(_BETWEEN)
    kinds, traits, rows = columns[1:4]
    classes, known, counts, deps, places = map(_array, columns[4:9])
    names = [sys.intern(name) for name in header["classes"]]
    tables = [json.loads(text) for text in header["known"]]
    targets, used = {}, 0
    for n in range(header["targets"]):
        kind, label, count = _KINDS[kinds[n]], labels[n], counts[n]
        attributes: Mapping[str, Any] = tables[known[n]]
        place = places[3 * n], places[3 * n + 1], places[3 * n + 2]
        if place != _NO_PLACE:
            attributes = Packed(chunks, place, attributes)
        row = rows[n * ROW_BYTES : (n + 1) * ROW_BYTES]
        targets[label] = Target(
            label,
            kind,
            names[classes[n]],
            attributes,
            tuple([labels[dep] for dep in deps[used : used + count]]),
            b"" if row == _NO_ROW else row,
            traits[n],
        )
        used += count
    return targets


class _Table:
    """Numbers the values that it is given."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, value: str) -> int:
        """The number of `value`, a new one if it is new."""
        return self.numbers.setdefault(value, len(self.numbers))


def _pieces(targets: Iterable[Target]) -> list[bytes]:
    packed = (t.attributes for t in targets if isinstance(t.attributes, Packed))
    first = next(packed, None)
    return first.chunks.packed if first is not None else []


def _known(target: Target) -> str:
    attributes = target.attributes
    return json.dumps(attributes.known if isinstance(attributes, Packed) else attributes)


def _place(target: Target) -> tuple[int, int, int]:
    attributes = target.attributes
    return attributes.place if isinstance(attributes, Packed) else _NO_PLACE


def _numbers(values: Iterable[int]) -> bytes:
    made = array("I", values)
    if sys.byteorder != "little":
        made.byteswap()
    return made.tobytes()


def _array(column: bytes) -> array[int]:
    made = array("I")
    made.frombytes(column)
    if sys.byteorder != "little":
        made.byteswap()
    return made


def _parts(data: bytes) -> list[bytes]:
    start = len(_MAGIC) + _NUMBERS.size
    if not data.startswith(_MAGIC) or len(data) < start:
        raise ValueError("not a graph: another kind of file")
    check, length = _NUMBERS.unpack_from(data, len(_MAGIC))
    body = memoryview(data)[start:]
    if len(body) != length or zlib.crc32(body) != check:
        raise ValueError("not a graph: damaged or cut off")
    parts, at = [], 0
    while at < length:
        size = _NUMBERS.unpack_from(body, at)[1]
        at += _NUMBERS.size
        parts.append(bytes(body[at : at + size]))
        at += size
    return parts
