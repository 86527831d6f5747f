"""Decode steps captured in a CUDA graph give bit for bit what they give outside."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from layers.attention.metadata import AttentionMetadata
from testing.models.batch import LENGTHS, PAGE, PAGES, SECOND, metadata_of, page_table, poisoned
from testing.models.examine import Examination
from testing.oracles.models.configs import ALL, DEEPSEEK

STEPS = 3


def captured(forward: Callable[[], torch.Tensor]) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """A graph of it, and the memory that its output is in."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            forward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = forward()
    return graph, out


class Steps:
    """Tokens of three requests, one a step, behind their prompts."""

    def __init__(self, examined: Examination, of_draft: bool) -> None:
        model = examined.model
        self.ids = [tokens.to(model.device) for tokens in examined.ids]
        self.model, self.draft = model, model.draft if of_draft else None
        maker = model if self.draft is None else self.draft
        self.caches = poisoned(maker.make_caches(PAGES, PAGE))
        self.first = [min(s, n - STEPS) - 1 for s, n in zip(SECOND, LENGTHS, strict=True)]
        shape = (3, examined.config["hidden_size"])
        self.tokens = torch.zeros(3, dtype=torch.int64, device=model.device)
        self.hidden = torch.randn(shape, device=model.device).to(model.params_dtype)
        parts = [(r, 0, self.first[r]) for r in range(3)]
        metadata = metadata_of("extend", parts, model.device)
        prompt = torch.cat([self.ids[r][:end] for r, _, end in parts])
        self.forward(prompt, self.hidden[:1].expand(len(prompt), -1), metadata)

    def forward(
        self, tokens: torch.Tensor, hidden: torch.Tensor, metadata: AttentionMetadata
    ) -> torch.Tensor:
        positions = metadata.positions
        if self.draft is None:
            out = self.model(tokens, positions, self.caches, metadata)
        else:
            out = self.draft.forward(tokens, positions, hidden, self.caches, metadata)
        logits: torch.Tensor = self.model.logits(out)
        return logits

    def metadata(self, step: int) -> AttentionMetadata:
        return AttentionMetadata.decode(self.lengths(step), page_table(self.model.device), PAGE)

    def lengths(self, step: int) -> list[int]:
        return [start + step + 1 for start in self.first]

    def take(self, step: int) -> None:
        at = [start + step for start in self.first]
        self.tokens.copy_(torch.stack([self.ids[r][at[r]] for r in range(3)]))


@pytest.mark.parametrize(
    ("config", "of_draft"),
    [*((c, False) for c in ALL), (DEEPSEEK, True)],
    ids=["Llama", "DeepSeek", "gpt-oss", "draft"],
)
@torch.inference_mode()  # type: ignore[untyped-decorator]
def test_a_replay_is_what_a_call_gives(config: dict[str, Any], of_draft: bool) -> None:
    steps = Steps(Examination(config), of_draft)
    metadata = steps.metadata(0)
    maker = steps.model if steps.draft is None else steps.draft
    maker.plan(steps.caches, metadata)
    graph, out = captured(lambda: steps.forward(steps.tokens, steps.hidden, metadata))
    for step in range(STEPS):
        steps.take(step)
        metadata.update(steps.lengths(step), page_table(steps.model.device))
        graph.replay()
        replayed = out.clone()
        called = steps.forward(steps.tokens, steps.hidden, steps.metadata(step))
        assert torch.equal(replayed, called) and bool(called.isfinite().all())
    steps.take(0)
    graph.replay()
    assert not torch.equal(out, replayed)
