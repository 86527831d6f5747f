"""Reads a target graph from `bazel query --output=streamed_proto`.

Of each message only the label, the class and the deps are taken; its attributes stay packed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import IO, Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from tools.plumb import graph
from tools.plumb.graph import DEFINED, DEFINITION, GENERATED, GROUP, RULE, SELECTS, SHIFTS, SOURCE
from tools.plumb.stream import messages
from tools.plumb.stream.columns import KINDS, NO_PLACE, ROW_BYTES, Columns, Lazy
from tools.plumb.stream.decode import value
from tools.plumb.stream.from_json import is_condition, name_of, place_of
from tools.plumb.stream.packed import Chunks

_CHUNK = 1 << 18
_READ = 1 << 20
# What is asked of every test and of every suite, and what it is where Bazel does not say.
_WANTED: Mapping[str, Any] = {"tags": [], "exec_properties": None}
# How a field selector_list of an attribute starts; other bytes may look like it.
_SELECTOR = b"\xaa\x01"
# A rule with a transition depends on this list, whether or not its attributes are written.
_SHIFT = b"allowlists/function_transition_allowlist"
_KIND = {kind: number for number, kind in enumerate(KINDS)}
_NO_TABLE: tuple[Any, ...] = ()


def read(stream: IO[bytes], release: str = "") -> graph.Graph:
    """The graph in the stream.

    Raises ValueError for what is no stream of targets.
    """
    builder = _Builder()
    try:
        for message in delimited(stream):
            builder.add(message)
    except DecodeError as error:
        raise ValueError(f"not a stream of targets: {error}") from error
    return graph.Graph(Lazy(builder.columns()), release, builder.loads)


def delimited(stream: IO[bytes]) -> Iterator[bytes]:
    """The messages of a stream, each of which follows its length.

    Raises ValueError if the stream ends in the middle of one.
    """
    held, at = b"", 0
    while True:
        start, size, shift = at, 0, 0
        while start < len(held):
            byte = held[start]
            start += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        else:
            size = -1
        if size >= 0 and start + size <= len(held):
            yield held[start : start + size]
            at = start + size
            continue
        more = stream.read(_READ)
        if not more:
            if at < len(held):
                raise ValueError("the stream of targets ends in the middle of one")
            return
        held, at = held[at:] + more, 0


@dataclass
class _Builder:
    loads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _chunks: Chunks = field(default_factory=Chunks)
    _open: list[bytes] = field(default_factory=list)
    _length: int = 0
    # A label as Bazel writes it, and as we do, to its number.
    _written: dict[str, int] = field(default_factory=dict)
    _labels: dict[str, int] = field(default_factory=dict)
    _of: array[int] = field(default_factory=lambda: array("I"))
    _kinds: bytearray = field(default_factory=bytearray)
    _traits: bytearray = field(default_factory=bytearray)
    _rows: list[bytes] = field(default_factory=list)
    _classes: array[int] = field(default_factory=lambda: array("I"))
    _class_names: dict[str, int] = field(default_factory=dict)
    _known: array[int] = field(default_factory=lambda: array("I"))
    _tables: list[Mapping[str, Any]] = field(default_factory=list)
    _table_of: dict[Any, int] = field(default_factory=dict)
    _starts: array[int] = field(default_factory=lambda: array("I", [0]))
    _deps: array[int] = field(default_factory=lambda: array("I"))
    _places: array[int] = field(default_factory=lambda: array("I"))

    def add(self, message: bytes) -> None:
        """Takes a Target message."""
        outline = messages.Outline.FromString(message)
        self._rows.append(blake2b(message, digest_size=ROW_BYTES).digest())
        kind = outline.type
        if kind == messages.RULE:
            self._rule(message, outline.rule)
        elif kind == messages.SOURCE_FILE:
            file = outline.source_file
            if file.HasField("package_contains_errors"):
                # Only the BUILD file of a package is said to.
                self._package(file)
            access = tuple(file.visibility_label)
            self._target(file.name, SOURCE, self._table((access,), self._visibility, access))
        elif kind == messages.GENERATED_FILE:
            made = outline.generated_file
            self._deps.append(self._number(made.generating_rule))
            self._target(made.name, GENERATED, self._table(_NO_TABLE, dict))
        elif kind == messages.PACKAGE_GROUP:
            group = json_format.MessageToDict(outline.package_group)
            name = group.pop("name")
            self._target(name, GROUP, self._table(("group", name), lambda: group))
        elif kind == messages.ENVIRONMENT_GROUP:
            self._target(outline.environment_group.name, GROUP, self._table(_NO_TABLE, dict))
        else:
            raise ValueError(f"unknown kind of target in Bazel's output: {kind!r}")

    def columns(self) -> Columns:
        """All that was added."""
        self._close()
        rows, places = b"".join(self._rows), self._places
        return Columns(
            list(self._labels),
            self._of,
            bytes(self._kinds),
            bytes(self._traits),
            self._classes,
            self._known,
            self._starts,
            self._deps,
            list(self._class_names),
            self._tables,
            lambda: rows,
            lambda: places,
            self._chunks,
        )

    def _rule(self, message: bytes, outline: Any) -> None:
        rule_class = outline.rule_class
        deps = [self._number(label) for label in outline.rule_input]
        traits = SHIFTS if _SHIFT in message else 0
        asked = graph.is_test_class(rule_class) or rule_class == graph.SUITE
        selects = _SELECTOR in message
        tags: Any = None
        properties: Any = None
        if asked or selects:
            for attribute in messages.Target.FromString(message).rule.attribute:
                if selects and attribute.HasField("selector_list"):
                    traits |= SELECTS
                    deps += self._conditions(attribute.selector_list)
                if asked and attribute.name == "tags":
                    tags = attribute
                elif asked and attribute.name == "exec_properties":
                    properties = attribute
        place = place_of(outline.definition_stack)
        if place:
            traits |= DEFINED
        key: tuple[Any, ...] = (asked, place)
        if asked:
            key += tags and tags.SerializeToString(), properties and properties.SerializeToString()
        table = self._table(key, self._often_asked, asked, place, tags, properties)
        self._deps.extend(dict.fromkeys(deps))
        self._target(outline.name, RULE, table, rule_class, traits, self._keep(message))

    def _target(
        self,
        name: str,
        kind: str,
        table: int,
        rule_class: str = "",
        traits: int = 0,
        place: tuple[int, int, int] = NO_PLACE,
    ) -> None:
        self._of.append(self._number(name))
        self._kinds.append(_KIND[kind])
        self._traits.append(traits)
        self._classes.append(self._class_names.setdefault(rule_class, len(self._class_names)))
        self._known.append(table)
        self._starts.append(len(self._deps))
        self._places.extend(place)

    def _package(self, file: Any) -> None:
        package = graph.package_of(name_of(file.name))
        self.loads[package] = tuple(map(name_of, file.subinclude))

    def _conditions(self, selector_list: Any) -> list[int]:
        labels = (entry.label for part in selector_list.elements for entry in part.entries)
        return [self._number(label) for label in labels if is_condition(label)]

    def _table(self, key: Any, make: Any, *given: Any) -> int:
        found = self._table_of.get(key)
        if found is None:
            found = self._table_of[key] = len(self._tables)
            self._tables.append(make(*given))
        return found

    @staticmethod
    def _visibility(labels: tuple[str, ...]) -> Mapping[str, Any]:
        return {"visibility": list(labels)}

    @staticmethod
    def _often_asked(asked: bool, place: str, tags: Any, properties: Any) -> Mapping[str, Any]:
        found = {DEFINITION: place} if place else {}
        if asked:
            given = {"tags": tags, "exec_properties": properties}
            found |= {
                name: default if given[name] is None else value(given[name])
                for name, default in _WANTED.items()
            }
        return found

    def _close(self) -> None:
        if self._open:
            self._chunks.add(b"".join(self._open))
            self._open, self._length = [], 0

    def _keep(self, message: bytes) -> tuple[int, int, int]:
        if self._length + len(message) > _CHUNK:
            self._close()
        start = self._length
        self._open.append(message)
        self._length += len(message)
        return len(self._chunks.packed), start, self._length

    def _number(self, label: str) -> int:
        found = self._written.get(label)
        if found is None:
            name = name_of(label)
            found = self._written[label] = self._labels.setdefault(name, len(self._labels))
        return found
