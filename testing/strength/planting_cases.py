"""Tests of int8 layers for the plugin `planting` to be tried on."""

from __future__ import annotations

import numpy as np

import layers.quantization.w8a8_int8  # noqa: F401 registers itself
from testing.harness.device import device
from testing.harness.linear import LinearCase, build
from testing.harness.linear_probes import examine_case
from testing.harness.records import record
from testing.quant.int8.methods import CHANNEL

_CASE = LinearCase(CHANNEL, "merged", 32, {"gate": 256, "up": 256}, 512)
_SMALL = LinearCase(CHANNEL, "column", 4, {"": 8}, 64)


def strong() -> None:
    """Asks everything that a layer test asks."""
    examine_case(_CASE, 3, device()).require()


def weak() -> None:
    """Looks at the output's shape alone."""
    loaded = build(_CASE, _CASE.checkpoint(np.random.default_rng(1)), device())
    assert loaded(np.ones((32, 512))).shape == (32, 512)


def small() -> None:
    """As strong, of a layer that many faults do not fit."""
    examine_case(_SMALL, 3, device()).require()


def own() -> None:
    """Puts down a fault of its own."""
    record({"fault": "mine", "killed": True}, "kills.jsonl")
