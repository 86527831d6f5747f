"""Faults to plant in right attention layers, dense and in a window of 13 keys."""

from __future__ import annotations

from testing.strength.attention.bench import benches
from testing.strength.attention.value_faults import CACHE, FP8, HEADS, LOGITS, SOFTMAX
from testing.strength.attention.visible_faults import DRAFTS, MASKS, PAGES

WINDOW = 13
BENCHES = {"dense": benches(None), "swa": benches(WINDOW)}
FAULTS = [*MASKS, *DRAFTS, *PAGES, *HEADS, *LOGITS, *SOFTMAX, *FP8, *CACHE]
