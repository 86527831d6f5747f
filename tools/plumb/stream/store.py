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
from itertools import accumulate
from typing import Any

from tools.plumb.graph import Graph, Target
from tools.plumb.stream.columns import KINDS, NO_PLACE, ROW_BYTES, Columns, Lazy
from tools.plumb.stream.packed import Chunks

_MAGIC = b"plumb\x02"
# Labels hold any character but this.
_BETWEEN = "\0"
_NUMBERS = struct.Struct("<IQ")
_COLUMNS = 12


def dump(graph: Graph, about: Mapping[str, Any]) -> bytes:
    """The graph as bytes. about: what else to keep, as JSON has it."""
    targets = graph.targets
    columns = targets.columns if isinstance(targets, Lazy) else _columns(targets.values())
    starts, users = columns.by_label()
    header = {
        "about": about,
        "release": graph.release,
        "targets": len(columns.of),
        "classes": columns.class_names,
        "tables": columns.tables,
        "loads": graph.loads,
    }
    parts = [
        json.dumps(header).encode(),
        _BETWEEN.join(columns.labels).encode(errors="surrogateescape"),
        columns.kinds,
        columns.traits,
        columns.rows(),
        *map(_bytes, (columns.of, columns.classes, columns.known, columns.starts, columns.deps)),
        *map(_bytes, (columns.places(), starts, users)),
    ]
    return join([*(zlib.compress(part, level=1) for part in parts), *columns.chunks.packed])


def join(parts: Sequence[bytes]) -> bytes:
    """The parts as one, in a form that shows damage."""
    body = b"".join(_NUMBERS.pack(0, len(part)) + part for part in parts)
    return _MAGIC + _NUMBERS.pack(zlib.crc32(body), len(body)) + body


def load(data: bytes) -> tuple[Graph, dict[str, Any]]:
    """The graph that `dump` wrote, and what was kept with it.

    Raises ValueError if the bytes are not one, or an empty one.
    """
    parts = split(data)
    header = json.loads(zlib.decompress(parts[0]))
    if not header["targets"] or not header["release"]:
        raise ValueError("not a graph: no target or no release of Bazel")
    return Graph(Lazy(_unpacked(header, parts)), header["release"], _loads(header)), header["about"]


def _loads(header: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {package: tuple(labels) for package, labels in header["loads"].items()}


def _unpacked(header: Mapping[str, Any], parts: list[bytes]) -> Columns:
    labels, kinds, traits = map(zlib.decompress, parts[1:4])
    numbers = {n: _array(zlib.decompress(parts[n])) for n in (5, 6, 7, 8, 9, 11, 12)}
    return Columns(
        labels.decode(errors="surrogateescape").split(_BETWEEN),
        numbers[5],
        kinds,
        traits,
        numbers[6],
        numbers[7],
        numbers[8],
        numbers[9],
        header["classes"],
        header["tables"],
        lambda: zlib.decompress(parts[4]),
        lambda: _array(zlib.decompress(parts[10])),
        Chunks(parts[_COLUMNS + 1 :]),
        (numbers[11], numbers[12]),
    )


def _columns(targets: Iterable[Target]) -> Columns:
    """Columns of targets that are made already."""
    found = list(targets)
    labels = {target.label: number for number, target in enumerate(found)}
    for target in found:
        for dep in target.deps:
            labels.setdefault(dep, len(labels))
    classes: dict[str, int] = {}
    places = array("I", NO_PLACE * len(found))
    rows = b"".join(target.row or bytes(ROW_BYTES) for target in found)
    return Columns(
        list(labels),
        array("I", range(len(found))),
        bytes(KINDS.index(target.kind) for target in found),
        bytes(target.all_traits for target in found),
        array("I", [classes.setdefault(target.rule_class, len(classes)) for target in found]),
        array("I", range(len(found))),
        array("I", accumulate((len(target.deps) for target in found), initial=0)),
        array("I", [labels[dep] for target in found for dep in target.deps]),
        list(classes),
        [dict(target.attributes) for target in found],
        lambda: rows,
        lambda: places,
        Chunks(),
    )


def _bytes(values: array[int]) -> bytes:
    made = values
    if sys.byteorder != "little":
        made = array("I", values)
        made.byteswap()
    return made.tobytes()


def _array(column: bytes) -> array[int]:
    made = array("I")
    made.frombytes(column)
    if sys.byteorder != "little":
        made.byteswap()
    return made


def split(data: bytes) -> list[bytes]:
    """What `join` was given. Raises ValueError if the bytes are not what it made."""
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
