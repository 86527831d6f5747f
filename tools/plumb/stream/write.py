"""Writes targets as `bazel query --output=streamed_proto` does, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format

from tools.plumb.stream import messages


def delimited(target: Mapping[str, Any]) -> bytes:
    """A Target message, given in its JSON form, after its length."""
    content: bytes = json_format.ParseDict(dict(target), messages.Target()).SerializeToString()
    size, length = len(content), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return length + bytes([size]) + content
