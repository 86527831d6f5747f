"""Faults to plant in right MLA layers: in the torch backends, the layer's steps and post-load."""

from __future__ import annotations

from testing.strength.attention.mla.place_faults import MASKS, PAGES, SLOTS
from testing.strength.attention.mla.value_faults import HEADS, ROTARY, ROUNDING, SCALES

FAULTS = [*SCALES, *ROTARY, *MASKS, *PAGES, *HEADS, *SLOTS, *ROUNDING]
