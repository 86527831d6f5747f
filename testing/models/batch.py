"""A batch of requests through a model as an engine would send them, and what is seen on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from layers.attention.metadata import AttentionMetadata
from layers.models.causal_lm import CausalLM
from layers.models.decoder import Cache
from layers.moe.layer import FusedMoE
from layers.moe.topk import TopKConfig, TopKOutput

PAGE = 16
PAGES = 12
LENGTHS = (27, 21, 9)
# Chunks of prompts, the second behind the first; then tokens one by one. Pages are full at 16.
FIRST, SECOND = (12, 7, 4), (17, 16, 6)

# Of each request in a call: its number, the first position, and the end.
Parts: TypeAlias = list[tuple[int, int, int]]
# The mode of each call, and its requests.
Calls: TypeAlias = list[tuple[str, Parts]]


@dataclass
class Seen:
    """What a model made of every token, in the order of requests and positions.

    logits: (tokens, vocab) float32.
    hidden: (tokens, hidden).
    router_logits, experts: of each layer with experts, (tokens, E) and (tokens, k).
    """

    logits: torch.Tensor
    hidden: torch.Tensor
    router_logits: list[torch.Tensor] = field(default_factory=list)
    experts: list[torch.Tensor] = field(default_factory=list)


def token_ids(vocab_size: int, seed: int = 0) -> list[torch.Tensor]:
    """The tokens of each request, (length,) int64."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, vocab_size, (n,), generator=generator) for n in LENGTHS]


def page_table(device: torch.device) -> torch.Tensor:
    """(requests, 3) int32: pages in no order; entries that are never read are no pages."""
    table = [[7, 2, -1], [5, 11, -1], [3, -1, -1]]
    return torch.tensor(table, dtype=torch.int32, device=device)


def steps() -> Calls:
    """Prompts in two chunks, then tokens one by one, of fewer requests at the end."""
    made: Calls = [
        ("extend", [(r, 0, FIRST[r]) for r in range(3)]),
        ("extend", [(r, FIRST[r], SECOND[r]) for r in range(3)]),
    ]
    for step in range(max(n - s for n, s in zip(LENGTHS, SECOND, strict=True))):
        at = [SECOND[r] + step for r in range(3)]
        made.append(("decode", [(r, at[r], at[r] + 1) for r in range(3) if at[r] < LENGTHS[r]]))
    return made


WHOLE: Calls = [("extend", [(r, 0, LENGTHS[r]) for r in range(3)])]


def run(
    model: CausalLM,
    ids: Sequence[torch.Tensor],
    calls: Calls,
    dtype: torch.dtype | None = None,
) -> Seen:
    """All calls, from empty caches of that dtype, whose free slots hold NaN."""
    caches = poisoned(model.make_caches(PAGES, PAGE, dtype))

    def forward(parts: Parts, metadata: AttentionMetadata) -> torch.Tensor:
        tokens = torch.cat([ids[r][a:b] for r, a, b in parts]).to(model.device)
        out: torch.Tensor = model(tokens, metadata.positions, caches, metadata)
        return out

    return _seen(model, calls, forward)


def run_draft(
    model: CausalLM, ids: Sequence[torch.Tensor], hidden: Sequence[torch.Tensor], calls: Calls
) -> Seen:
    """The same of the draft module; a request has a token less, as each comes with the next.

    hidden: of each request the main model's, (tokens - 1, hidden).
    """
    draft = model.draft
    assert draft is not None
    caches = poisoned(draft.make_caches(PAGES, PAGE))

    def forward(parts: Parts, metadata: AttentionMetadata) -> torch.Tensor:
        tokens = torch.cat([ids[r][a + 1 : b + 1] for r, a, b in parts]).to(model.device)
        previous = torch.cat([hidden[r][a:b] for r, a, b in parts]).to(model.device)
        return draft.forward(tokens, metadata.positions, previous, caches, metadata)

    return _seen(model, calls, forward)


def previous(seen: Seen) -> list[torch.Tensor]:
    """Of each request the hidden states that its draft takes, (tokens - 1, hidden)."""
    return [part[:-1] for part in seen.hidden.split(list(LENGTHS))]


def without_last(calls: Calls) -> Calls:
    """The calls with no request's last token."""
    shorter = [
        (mode, [(r, a, min(b, LENGTHS[r] - 1)) for r, a, b in parts]) for mode, parts in calls
    ]
    return [(mode, kept) for mode, parts in shorter if (kept := [p for p in parts if p[1] < p[2]])]


def _seen(
    model: CausalLM, calls: Calls, forward: Callable[[Parts, AttentionMetadata], torch.Tensor]
) -> Seen:
    found: dict[tuple[int, int], list[torch.Tensor]] = {}
    with watched(model) as routers:
        for mode, parts in calls:
            hidden = forward(parts, metadata_of(mode, parts, model.device))
            seen = [model.logits(hidden), hidden, *(t for pair in routers.take() for t in pair)]
            places = [(r, p) for r, a, b in parts for p in range(a, b)]
            for row, place in enumerate(places):
                found[place] = [tensor[row].cpu() for tensor in seen]
    rows = [found[place] for place in sorted(found)]
    columns = [torch.stack(column) for column in zip(*rows, strict=True)]
    return Seen(columns[0], columns[1], columns[2::2], columns[3::2])


def metadata_of(mode: str, parts: Parts, device: torch.device) -> AttentionMetadata:
    """Of one call."""
    table = page_table(device)[[r for r, _, _ in parts]]
    ends = [end for _, _, end in parts]
    if mode == "decode":
        return AttentionMetadata.decode(ends, table, PAGE)
    return AttentionMetadata.extend([end - start for _, start, end in parts], ends, table, PAGE)


def poisoned(caches: list[Cache]) -> list[Cache]:
    """Caches full of NaN, which shows wherever a slot is read that was never written."""
    for cache in caches:
        for name in ("k", "v", "pages"):
            pages = getattr(cache, name, None)
            if pages is not None:
                pages.fill_(torch.nan)
    return caches


class _Routers:
    """What the layers with experts chose in a call."""

    def __init__(self) -> None:
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def take(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Those since the last time, layer by layer."""
        pairs, self.pairs = self.pairs, []
        return pairs


@contextmanager
def watched(model: CausalLM) -> Iterator[_Routers]:
    """Within it, what routers say is kept: each layer's logits and chosen experts."""
    routers = _Routers()
    layers = [m for m in model.modules() if isinstance(m, FusedMoE)]
    kept = [layer.select_experts for layer in layers]
    for layer in layers:
        select = layer.select_experts

        def watching(
            logits: torch.Tensor,
            config: TopKConfig,
            bias: torch.Tensor | None,
            select: object = select,
        ) -> TopKOutput:
            chosen: TopKOutput = select(logits, config, bias)  # type: ignore[operator]
            routers.pairs.append((logits, chosen.ids.long()))
            return chosen

        layer.select_experts = watching
    try:
        yield routers
    finally:
        for layer, select in zip(layers, kept, strict=True):
            layer.select_experts = select
