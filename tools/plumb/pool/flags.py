"""Which of Bazel's options take a value: `opt` is one in `-c opt`, and a target in `-k opt`."""

from __future__ import annotations

import base64
import binascii
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from tools.plumb import bazel
from tools.plumb.errors import ExitCode, PlumbError

_FIELD = descriptor_pb2.FieldDescriptorProto


@dataclass(frozen=True)
class Flags:
    """Names of options that take a value, and the long name of each letter."""

    valued: frozenset[str] = frozenset()
    letters: dict[str, str] = field(default_factory=dict)

    def grouped(self, words: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Each word by itself, but an option whose value is the next word together with that.

        Raises PlumbError if the last option lacks its value.
        """
        waiting = iter(words)
        for word in waiting:
            if word == "--":
                yield from ((one,) for one in (word, *waiting))
            elif "=" in word or not self._takes_value(word):
                yield (word,)
            else:
                value = next(waiting, None)
                if value is None:
                    raise PlumbError(f"{word} has no value: write {word}=VALUE.")
                yield word, value

    def _takes_value(self, word: str) -> bool:
        if word.startswith("--"):
            return word[2:] in self.valued
        return word.startswith("-") and self.letters.get(word[1:]) in self.valued


def of_bazel(entry: Path, workspace: Path) -> Flags:
    """What this Bazel says of its options. Raises PlumbError if it does not."""
    try:
        done = subprocess.run(
            [str(entry), "help", "flags-as-proto"],
            cwd=workspace,
            env=bazel.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        found = read(done.stdout)
    except OSError as error:
        raise PlumbError(f"cannot run {entry}: {error.strerror}.", ExitCode.ENVIRONMENT) from error
    if not found.valued:
        said = done.stderr.decode(errors="replace").strip()[-300:] or "nothing"
        raise PlumbError(
            f"`{entry} help flags-as-proto` does not say which options take a value (it ended with "
            f"{done.returncode} and said {said}): write each value behind '=', as --config=remote.",
            ExitCode.ENVIRONMENT,
        )
    return found


def read(text: bytes) -> Flags:
    """Flags from the base64 of Bazel 7's bazel_flags.FlagCollection; none from other words."""
    collection = _collection()()
    try:
        collection.ParseFromString(base64.b64decode(text))
    except (binascii.Error, DecodeError):
        return Flags()
    return Flags(
        frozenset(flag.name for flag in collection.flags if flag.requires_value),
        {flag.abbreviation: flag.name for flag in collection.flags if flag.abbreviation},
    )


@cache
def _collection() -> Any:
    """The message, with the numbers of Bazel 7's src/main/protobuf/bazel_flags.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="plumb_flags.proto", package="plumb.flags")
    flag = file.message_type.add(name="Flag")
    for number, name, kind in (
        (1, "name", _FIELD.TYPE_STRING),
        (5, "abbreviation", _FIELD.TYPE_STRING),
        (10, "requires_value", _FIELD.TYPE_BOOL),
    ):
        flag.field.add(number=number, name=name, type=kind, label=_FIELD.LABEL_OPTIONAL)
    collection = file.message_type.add(name="Collection")
    collection.field.add(
        number=1,
        name="flags",
        type=_FIELD.TYPE_MESSAGE,
        type_name=".plumb.flags.Flag",
        label=_FIELD.LABEL_REPEATED,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("plumb.flags.Collection"))
