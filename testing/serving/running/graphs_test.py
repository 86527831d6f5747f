"""Decode batches replayed as CUDA graphs give bit for bit what they give from Python."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from layers.models.load import load_model
from layers.serving.running.batch import Batch, pack_pages
from layers.serving.running.graphs import GraphPlan
from layers.serving.running.runner import Runner
from testing.harness.device import device
from testing.oracles.models.configs import ALL, DEEPSEEK
from testing.serving.checkpoints import write_checkpoint

PAGE = 16
WIDTH = 6
TEXTS = 4
NUM_PAGES = 1 + TEXTS * WIDTH
PROMPTS = [37, 16, 1, 50]
STEPS = 4


def pages_of(text: int) -> list[int]:
    return list(range(1 + text * WIDTH, 1 + (text + 1) * WIDTH))


def batch(
    mode: str, ids: Sequence[Sequence[int]], kv_lens: Sequence[int], filling: int = 0
) -> Batch:
    """Of the first texts; with `filling`, as a graph fills it up with texts of page 0."""
    query_lens = [len(own) for own in ids]
    pages = [pages_of(text) for text in range(len(ids))]
    rows = list(range(sum(query_lens)))
    if filling:
        query_lens += [query_lens[0]] * filling
        kv_lens = [*kv_lens, *[query_lens[0]] * filling]
        pages += [[0] * WIDTH] * filling
        ids = [*ids, *[[0] * query_lens[0]] * filling]
    flat = [token for own in ids for token in own]
    table = pack_pages(pages, [WIDTH] * len(pages))
    return Batch(mode, flat, query_lens, list(kv_lens), table, rows)


class Twins:
    """The same model with and without graphs, each with caches of its own."""

    def __init__(self, folder: Path, draft_tokens: int) -> None:
        model: Any = load_model(folder, device=device(), with_draft=draft_tokens > 0)
        plan = GraphPlan((1, TEXTS), WIDTH, PAGE, draft_tokens)
        options: dict[str, Any] = {"with_draft": draft_tokens > 0}
        self.eager = Runner(model, NUM_PAGES, PAGE, **options)
        self.graphs = Runner(model, NUM_PAGES, PAGE, graphs=plan, **options)
        self.vocab = model.config.vocab_size
        self.prefill()

    def prefill(self) -> None:
        ids = [[(7 * i + t) % self.vocab for i in range(n)] for t, n in enumerate(PROMPTS)]
        prompts = batch("extend", ids, PROMPTS)
        got = self.graphs.target(prompts)
        assert torch.equal(got, self.eager.target(prompts))
        if self.eager.draft_caches:
            rows = list(range(TEXTS))
            behind = [(3 * i) % self.vocab for i in range(sum(PROMPTS))]
            assert torch.equal(
                self.graphs.draft_first(behind, rows), self.eager.draft_first(behind, rows)
            )

    def same_caches(self) -> bool:
        pairs = zip(
            [*self.eager.caches, *self.eager.draft_caches],
            [*self.graphs.caches, *self.graphs.draft_caches],
            strict=True,
        )
        return all(
            torch.equal(mine[1:], value[1:])
            for one, other in pairs
            for mine, value in zip(_tensors(one), _tensors(other), strict=True)
        )


def _tensors(cache: Any) -> list[torch.Tensor]:
    found = [value for value in vars(cache).values() if isinstance(value, torch.Tensor)]
    assert found, f"{type(cache).__name__} shows no tensor"
    return [tensor.view(torch.uint8) for tensor in found]


@pytest.mark.parametrize("texts", [1, 3, 4])
@pytest.mark.parametrize("config", ALL, ids=lambda c: c["architectures"][0])
def test_decodes_are_bit_for_bit_those_from_python(
    config: dict[str, Any], texts: int, tmp_path: Path
) -> None:
    twins = Twins(write_checkpoint(tmp_path, config), 0)
    filling = {1: 0, 3: 1, 4: 0}[texts]
    for step in range(STEPS):
        ids = [[(11 * step + text) % twins.vocab] for text in range(texts)]
        kv_lens = [PROMPTS[text] + step + 1 for text in range(texts)]
        got = twins.graphs.target(batch("decode", ids, kv_lens))
        assert twins.graphs._captured is not None
        want = twins.eager.target(batch("decode", ids, kv_lens, filling))
        assert torch.isfinite(want).all()
        assert torch.equal(got, want)
    assert twins.same_caches()


@pytest.mark.parametrize("texts", [1, 3, 4])
def test_verification_and_drafts_are_bit_for_bit_those_from_python(
    texts: int, tmp_path: Path
) -> None:
    drafts = 3
    twins = Twins(write_checkpoint(tmp_path, DEEPSEEK), drafts)
    filling = {1: 0, 3: 1, 4: 0}[texts]
    rows = [text * (1 + drafts) + text % 3 for text in range(texts)]
    for step in range(STEPS):
        ids = [[(5 * step + text + i) % twins.vocab for i in range(4)] for text in range(texts)]
        kv_lens = [PROMPTS[text] + 2 * step + 4 for text in range(texts)]
        got = twins.graphs.target(batch("draft", ids, kv_lens))
        want = twins.eager.target(batch("draft", ids, kv_lens, filling))
        assert torch.equal(got, want)
        behind = [(3 * i) % twins.vocab for i in range(4 * texts)]
        got = twins.graphs.draft_first(behind, rows)
        want = twins.eager.draft_first(behind + [0] * 4 * filling, rows)
        assert torch.equal(got, want)
        if filling:
            twins.eager._draft_hidden = torch.cat(
                [twins.eager._draft_hidden, torch.zeros_like(twins.eager._draft_hidden[:filling])]
            )
        one = [[7 + text] for text in range(texts)]
        lengths = [length - 2 for length in kv_lens]
        got = twins.graphs.draft_next(batch("decode", one, lengths))
        want = twins.eager.draft_next(batch("decode", one, lengths, filling))[:texts]
        assert torch.equal(got, want)
    assert twins.same_caches()


def test_other_batches_run_from_python(tmp_path: Path) -> None:
    twins = Twins(write_checkpoint(tmp_path, ALL[0]), 0)
    for mode, ids, kv_lens in (
        ("extend", [[1, 2], [3]], [39, 17]),
        ("draft", [[1, 2], [3, 4]], [39, 18]),
    ):
        other = batch(mode, ids, kv_lens)
        assert torch.equal(twins.graphs.target(other), twins.eager.target(other))
        assert twins.graphs._captured is None
