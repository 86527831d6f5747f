"""Faults of what MLA reads and writes: masks, pages, slots."""

from __future__ import annotations

from functools import partial

from testing.strength.attention import kinds
from testing.strength.attention.mla import edits
from testing.strength.attention.mla.bench import (
    ABSORBED,
    UNABSORBED,
    in_layer,
    in_step,
)
from testing.strength.fault import Fault

reads = partial(kinds.reads, ("mla",))
shows = partial(kinds.shows, ("mla",))
cached = partial(shows, check="cache")

_FIRST = "the latent cache, token 20 of request 0"
_AHEAD = "a query sees one key ahead of itself"
_OWN = "a query does not see its own key"
_LAST = "a request's last key is not seen"
MASKS = [
    reads("one key ahead", "mask", in_step(ABSORBED, "visible", edits.one_ahead), _AHEAD),
    reads("own key unseen", "mask", in_step(ABSORBED, "visible", edits.own_unseen), _OWN),
    # Which is the same in a decode.
    Fault(
        "own key unseen in decode",
        "mask",
        in_step(ABSORBED, "visible", edits.own_unseen),
        "reading",
        (("reading", _OWN), ("reading", _LAST)),
        ("mla",),
        "decode",
    ),
    reads(
        "one key ahead in prompts",
        "mask",
        in_step(UNABSORBED, "visible", edits.one_ahead),
        _AHEAD,
        "prompts",
    ),
    reads(
        "not causal", "mask", in_step(ABSORBED, "visible", edits.all_seen), "a query sees all keys"
    ),
    reads(
        "draft mask ignored",
        "mask",
        in_step(ABSORBED, "draft_visible", edits.mask_ignored),
        "a query sees all keys",
        "tree",
    ),
    reads(
        "a chain's mask ignored",
        "mask",
        in_step(ABSORBED, "draft_visible", edits.mask_ignored),
        "a query sees all keys",
        bench="chain",
    ),
    reads(
        "a tree taken for a chain",
        "mask",
        in_step(ABSORBED, "draft_visible", edits.chain_for_tree),
        "drafts see each other as a chain",
        "tree",
    ),
    reads(
        "last key lost",
        "length",
        in_step(ABSORBED, "softmax", edits.last_key_lost),
        _LAST,
    ),
]

PAGES = [
    reads(
        "pages swapped",
        "page",
        in_step(ABSORBED, "pages_of", edits.pages_swapped),
        "a request's first two pages are swapped",
    ),
    shows(
        "a page of the next request",
        "page",
        in_step(ABSORBED, "pages_of", edits.pages_of_the_next),
        ("request", "request 1"),
    ),
    shows(
        "a page that nobody owns",
        "page",
        in_step(ABSORBED, "pages_of", edits.page_past_the_last),
        ("finite", "all tokens; all heads"),
    ),
    shows(
        "slots past the length read",
        "containment",
        in_step(ABSORBED, "gather", edits.whole_pages),
        ("finite", "all tokens; all heads"),
        bench="chain",
    ),
]

SLOTS = [
    cached(
        "a slot late",
        "slot",
        in_layer("write_cache", edits.slot_late),
        ("written", _FIRST),
        ("spilt", "the latent cache, slot 15 of the last page of request 3, past its length"),
    ),
    cached(
        "the last token unwritten",
        "slot",
        in_layer("write_cache", edits.last_unwritten),
        ("written", "the latent cache, token 46 of request 3"),
    ),
    cached(
        "written twice",
        "slot",
        in_layer("write_cache", edits.written_twice),
        ("spilt", "the latent cache, slot 0 of page 0, which no request owns"),
    ),
    cached(
        "the rotated key first",
        "placement",
        in_layer("write_cache", edits.rotated_key_first),
        ("written", _FIRST),
    ),
    Fault(
        "q overwritten",
        "memory",
        in_layer("forward", edits.q_overwritten),
        "memory",
        (("memory", "q"),),
        ("mla",),
        "extend",
    ),
]
