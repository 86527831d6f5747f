"""Calls of as many requests each, whose longest is as long: what a graph's memory has room for."""

from __future__ import annotations

from testing.harness.attention.case import Call, prefixes

_LENGTHS = ([0, 15, 16, 700, 63], [700, 1, 2, 0, 511], [31, 32, 700, 33, 600])
CALLS = {
    "decode": [Call("decode", prefixes(lengths)) for lengths in _LENGTHS],
    "draft": [Call("draft", prefixes(lengths, 6)) for lengths in _LENGTHS],
}
