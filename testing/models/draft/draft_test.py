"""The module that drafts tokens against its float64 reference, in chunks and steps, each tensor."""

from functools import cache

import pytest
import torch

from testing.models.batch import (
    WHOLE,
    Calls,
    Seen,
    metadata_of,
    previous,
    run_draft,
    steps,
    without_last,
)
from testing.models.examine import Examination
from testing.models.folders import reference_of
from testing.models.judge import problems_of
from testing.models.truth import Truth, truth_of, values_of
from testing.oracles.models.configs import DEEPSEEK

EXAMINED = Examination(DEEPSEEK)
PREFIX = "model.layers.2."
CALLS = {"chunks and steps": without_last(steps()), "at once": without_last(WHOLE)}


def hidden_states() -> list[torch.Tensor]:
    """The main model's, of each request's tokens but the last."""
    return previous(EXAMINED.seen)


def drafted(calls: Calls) -> Seen:
    return run_draft(EXAMINED.model, EXAMINED.ids, hidden_states(), calls)


@cache
def truth(name: str) -> tuple[Seen, Truth]:
    """What was drafted, and what should have been, from the very hidden states given."""
    seen = drafted(CALLS[name])
    arithmetic = EXAMINED.arithmetic(in_chunks=name != "at once")
    given = [part.double() for part in hidden_states()]
    right = truth_of(EXAMINED.reference, EXAMINED.ids, seen.experts, arithmetic, given)
    return seen, right


@pytest.mark.parametrize("name", CALLS)
def test_drafts_are_the_reference_s(name: str) -> None:
    seen, right = truth(name)
    assert problems_of(seen, right, EXAMINED.reference, of_draft=True) == []


def test_every_tensor_of_the_draft_is_read_and_lies_where_it_belongs() -> None:
    seen, right = truth("chunks and steps")
    given = [part.double() for part in hidden_states()]
    shared = ["model.embed_tokens.weight", "lm_head.weight"]
    unseen = []
    for name in [n for n in EXAMINED.tensors if n.startswith(PREFIX)] + shared:
        tensor = EXAMINED.tensors[name]
        for dim in range(tensor.dim()):
            altered = reference_of(DEEPSEEK, {**EXAMINED.tensors, name: tensor.roll(1, dim)})
            arithmetic = EXAMINED.arithmetic(in_chunks=True)
            values = values_of(altered, EXAMINED.ids, seen.experts, arithmetic, draft_of=given)
            if not problems_of(seen, right.of(values), altered, of_draft=True):
                unseen.append((name, dim))
    assert unseen == []


def test_halves_joined_the_other_way_round_would_show() -> None:
    seen, right = truth("chunks and steps")
    name = f"{PREFIX}eh_proj.weight"
    swapped = {**EXAMINED.tensors, name: EXAMINED.tensors[name].roll(128, 1)}
    altered = reference_of(DEEPSEEK, swapped)
    given = [part.double() for part in hidden_states()]
    arithmetic = EXAMINED.arithmetic(in_chunks=True)
    values = values_of(altered, EXAMINED.ids, seen.experts, arithmetic, draft_of=given)
    assert problems_of(seen, right.of(values), altered, of_draft=True)


def test_the_main_model_is_the_same_without_a_draft() -> None:
    model = EXAMINED.load(with_draft=False)
    assert model.draft is None
    caches, other = model.make_caches(2, 16), EXAMINED.model.make_caches(2, 16)
    assert len(caches) == len(other) == 2
    assert model.cache_bytes_per_token() == EXAMINED.model.cache_bytes_per_token() == 2 * 80 * 2
    draft = EXAMINED.model.draft
    assert draft is not None and draft.cache_bytes_per_token() == 80 * 2


def test_caches_of_the_main_model_are_refused_in_words() -> None:
    model = EXAMINED.model
    draft = model.draft
    assert draft is not None
    metadata = metadata_of("extend", [(0, 0, 3)], model.device)
    hidden = torch.zeros(3, 128, dtype=torch.bfloat16, device=model.device)
    given = (EXAMINED.ids[0][:3].to(model.device), metadata.positions, hidden)
    match = r"2 caches were given, wanted 1, one a layer: those of its own make_caches\(\)"
    with pytest.raises(ValueError, match=match):
        draft.forward(*given, model.make_caches(2, 16), metadata)
    with pytest.raises(ValueError, match=match):
        draft.plan(model.make_caches(2, 16), metadata)
