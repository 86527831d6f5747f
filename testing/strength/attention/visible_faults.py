"""Faults of what a query sees, and of which pages it reads."""

from __future__ import annotations

import torch

from testing.strength.attention import edits
from testing.strength.attention.bench import in_step
from testing.strength.attention.fault import SWA, element, fault

MASKS = [
    fault(
        "a query sees one key ahead",
        "mask",
        in_step("visible", edits.one_key_ahead),
        "a query sees one key ahead of itself",
        where=(element("request 0, all heads"), element("request 1, all heads")),
    ),
    fault(
        "a query does not see its own key",
        "mask",
        in_step("visible", edits.own_key_unseen),
        "a query does not see its own key",
        where=(element("request 0, all heads, all tokens"),),
    ),
    fault(
        "a decoded token does not see its own key",
        "mask",
        in_step("visible", edits.own_key_unseen),
        "a query does not see its own key",
        "decode",
    ),
    fault(
        "the mask is not causal",
        "mask",
        in_step("visible", edits.not_causal),
        "the mask is not causal",
    ),
    fault(
        "the window is one key larger",
        "mask",
        in_step("visible", edits.window_by(1)),
        "the window is 14 in place of 13",
        formats=SWA,
    ),
    fault(
        "the window is one key smaller",
        "mask",
        in_step("visible", edits.window_by(-1)),
        "the window is 12 in place of 13",
        "decode",
        SWA,
    ),
    fault(
        "the window is passed over",
        "mask",
        in_step("visible", edits.window_by(None)),
        "there is no window",
        "decode",
        SWA,
        where=(element("request 1, all heads"), element("request 3, all heads")),
    ),
    fault(
        "the last key of one request is not seen",
        "length",
        in_step("seen_keys", edits.last_key_unseen),
        "the request's last key is not seen",
        where=(element("request 1, all heads, token 16"),),
    ),
    fault(
        "a decoding request is one key short",
        "length",
        in_step("seen_keys", edits.last_key_unseen),
        "the request's last key is not seen",
        "decode",
        where=(element("request 1, all heads"),),
    ),
]

DRAFTS = [
    fault(
        "the tree is transposed",
        "mask",
        in_step("draft_visible", edits.tree_as(lambda mask: mask.T)),
        "the drafts' mask is transposed",
        "draft",
        where=(element("request 2, all heads"),),
    ),
    fault(
        "the tree shows everything",
        "mask",
        in_step("draft_visible", edits.tree_as(torch.ones_like)),
        "drafts see all drafts",
        "draft",
    ),
    fault(
        "a chain shows everything",
        "mask",
        in_step("draft_visible", edits.tree_as(torch.ones_like)),
        "drafts see all drafts",
        "chain",
    ),
    fault(
        "the tree's mask is passed over",
        "mask",
        in_step("draft_visible", edits.tree_as(lambda mask: torch.ones_like(mask).tril())),
        "the drafts' mask is taken for a chain",
        "draft",
    ),
    fault(
        "drafts do not see the prefix",
        "mask",
        in_step("draft_visible", edits.prefix_unseen),
        "drafts do not see the prefix",
        "draft",
    ),
    fault(
        "drafts stand at their slots",
        "mask",
        in_step("draft_visible", edits.by_slot),
        "the window counts drafts by slot and not by position",
        "draft",
        SWA,
    ),
]

PAGES = [
    fault(
        "a page read twice",
        "page",
        in_step("pages_of", edits.first_page_again),
        "keys 16..31 of request 1, its page 1, are missing or another's",
        where=(element("request 1, all heads"),),
    ),
    fault(
        "a page that nobody owns",
        "page",
        in_step("pages_of", edits.page_of_nobody),
        ("finite", "request 1, all heads"),
    ),
    fault(
        "slots past the length weighed by zero",
        "page",
        in_step("gather", edits.past_the_end),
        ("finite", "request 0, all heads"),
        "decode",
    ),
]
