"""Faults of the scheduler and of the verification, planted where rank 0 loads its model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from layers.serving.memory.prefix_cache import PrefixCache
from layers.serving.scheduling import engine
from testing.e2e.faults.fault import fault

_DENSE, _MLA, _GPT = "tokenizer_workers_smoke", "mla_int8_mtp_smoke", "gpt_oss_mxfp4_smoke"

Planting = Generator[None, Any, None]


@fault("scheduler", _DENSE, _GPT)
def a_page_of_two_texts() -> Planting:
    """Every second text of a batch has the first page of the one before it for its own."""
    pack = _of_engine("pack_pages")

    def shared(pages: Sequence[Sequence[int]], counts: Sequence[int]) -> Any:
        firsts = [own[0] for own in pages]
        mixed = [[firsts[i - i % 2], *own[1:]] for i, own in enumerate(pages)]
        return pack(mixed, counts)

    _patch_engine("pack_pages", shared)
    yield
    yield


@fault("scheduler", _DENSE)
def any_prefix_matches() -> Planting:
    """Pages of earlier texts are reused by how many tokens they hold, whatever these are."""
    PrefixCache._edge = lambda self, tokens, index: (index,)  # type: ignore[method-assign]
    yield
    yield


@fault("scheduler", _DENSE, _GPT)
def pages_out_of_order() -> Planting:
    """A text's pages are listed backwards."""
    pack = _of_engine("pack_pages")

    def backwards(pages: Sequence[Sequence[int]], counts: Sequence[int]) -> Any:
        turned = [
            [*own[:count][::-1], *own[count:]] for own, count in zip(pages, counts, strict=True)
        ]
        return pack(turned, counts)

    _patch_engine("pack_pages", backwards)
    yield
    yield


@fault("scheduler", _DENSE, _GPT)
def tokens_of_the_next_text() -> Planting:
    """Of a batch's texts, each gets the token of the one behind it."""
    sample = _of_engine("sample")

    def rotated(logits: Any, params: Any, places: Any) -> list[int]:
        chosen = sample(logits, params, places)
        return [*chosen[1:], *chosen[:1]]

    _patch_engine("sample", rotated)
    yield
    yield


@fault("verification", _MLA)
def every_draft_kept() -> Planting:
    """Drafts are taken for the model's own choice."""
    _patch_engine("accept", lambda drafts, chosen: [*drafts, chosen[len(drafts)]])
    yield
    yield


@fault("verification", _MLA)
def no_draft_kept() -> Planting:
    """The text is right, and no forward is saved."""
    _patch_engine("accept", lambda drafts, chosen: [chosen[0]])
    yield
    yield


@fault("verification", _MLA)
def one_draft_too_many() -> Planting:
    """The first draft that differs is kept as well."""
    accept = _of_engine("accept")

    def lenient(drafts: Sequence[int], chosen: Sequence[int]) -> list[int]:
        kept: list[int] = accept(drafts, chosen)
        if len(kept) <= len(drafts):
            kept[-1] = drafts[len(kept) - 1]
        return kept

    _patch_engine("accept", lenient)
    yield
    yield


@fault("verification", _MLA)
def drafts_without_hidden_states() -> Planting:
    """The draft module is given zeros for the model's hidden states."""
    model = yield
    layer = model.model.layers[-1]
    join = layer.join
    layer.join = lambda embedded, hidden: join(embedded, hidden * 0)
    yield


def _of_engine(name: str) -> Any:
    return getattr(engine, name)


def _patch_engine(name: str, value: Any) -> None:
    # Where the engine's steps look it up.
    setattr(engine, name, value)
