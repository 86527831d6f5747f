"""Reads a target graph from `bazel query --output=streamed_proto`.

Of each message only the label, the class and the deps are taken; its attributes stay packed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import IO, Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from tools.plumb import graph
from tools.plumb.graph import (
    DEFINED,
    DEFINITION,
    GENERATED,
    GROUP,
    RULE,
    SELECTS,
    SHIFTS,
    SOURCE,
    Target,
)
from tools.plumb.stream import messages
from tools.plumb.stream.packed import Chunks, Packed, value

ROW_BYTES = 16
_CHUNK = 1 << 18
_READ = 1 << 20
# What is asked of every test and of every suite.
_WANTED = frozenset({"tags", "exec_properties"})
# How a field selector_list of an attribute starts; other bytes may look like it.
_SELECTOR = b"\xaa\x01"
_SHIFT = graph.TRANSITION.encode()


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
    builder.close()
    return graph.Graph(builder.targets, release)


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
    targets: dict[str, Target] = field(default_factory=dict)
    chunks: Chunks = field(default_factory=Chunks)
    _open: list[bytes] = field(default_factory=list)
    _length: int = 0
    _names: dict[str, str] = field(default_factory=dict)
    _known: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(self, message: bytes) -> None:
        """Takes a Target message."""
        outline = messages.Outline.FromString(message)
        row = blake2b(message, digest_size=ROW_BYTES).digest()
        kind = outline.type
        if kind == messages.RULE:
            target = self._rule(message, outline.rule, row)
        elif kind == messages.SOURCE_FILE:
            file = outline.source_file
            access = self._shared({"visibility": list(file.visibility_label)})
            target = Target(self._name(file.name), SOURCE, "", access, (), row, 0)
        elif kind == messages.GENERATED_FILE:
            made = outline.generated_file
            maker = (self._name(made.generating_rule),)
            target = Target(self._name(made.name), GENERATED, "", self._shared({}), maker, row, 0)
        elif kind == messages.PACKAGE_GROUP:
            group = json_format.MessageToDict(outline.package_group)
            target = Target(self._name(group.pop("name")), GROUP, "", group, (), row, 0)
        elif kind == messages.ENVIRONMENT_GROUP:
            name = self._name(outline.environment_group.name)
            target = Target(name, GROUP, "", self._shared({}), (), row, 0)
        else:
            raise ValueError(f"unknown kind of target in Bazel's output: {kind!r}")
        self.targets[target.label] = target

    def close(self) -> None:
        """Packs what is still open."""
        if self._open:
            self.chunks.add(b"".join(self._open))
            self._open, self._length = [], 0

    def _rule(self, message: bytes, outline: Any, row: bytes) -> Target:
        name, rule_class = self._name(outline.name), outline.rule_class
        deps = {self._name(label) for label in outline.rule_input}
        known: dict[str, Any] = {}
        traits = SHIFTS if _SHIFT in message else 0
        asked = rule_class.endswith("_test") or rule_class == graph.SUITE
        selects = _SELECTOR in message
        if asked or selects:
            for attribute in messages.Target.FromString(message).rule.attribute:
                if selects and attribute.HasField("selector_list"):
                    traits |= SELECTS
                    deps |= self._conditions(attribute.selector_list)
                if asked and attribute.name in _WANTED:
                    known[attribute.name] = value(attribute)
        if place := graph.place_of(outline.definition_stack):
            known[DEFINITION] = place
            traits |= DEFINED
        packed = Packed(self.chunks, self._keep(message), self._shared(known))
        return Target(name, RULE, rule_class, packed, tuple(sorted(deps)), row, traits)

    def _conditions(self, selector_list: Any) -> set[str]:
        labels = (entry.label for part in selector_list.elements for entry in part.entries)
        return {self._name(label) for label in labels if graph.is_condition(label)}

    def _keep(self, message: bytes) -> tuple[int, int, int]:
        if self._length + len(message) > _CHUNK:
            self.close()
        start = self._length
        self._open.append(message)
        self._length += len(message)
        return len(self.chunks.packed), start, self._length

    def _name(self, label: str) -> str:
        found = self._names.get(label)
        if found is None:
            found = self._names[label] = graph.name_of(label)
        return found

    def _shared(self, known: dict[str, Any]) -> Mapping[str, Any]:
        return self._known.setdefault(json.dumps(known), known)
