"""Embedding and head: rows by token, and logits that are not rounded to 16 bits."""

import numpy as np
import pytest
import torch

from layers.kernels.vocab import logits as logits_module
from layers.vocab.embedding import VocabParallelEmbedding
from layers.vocab.head import VocabParallelHead
from layers.weights import load_weights, process_weights_after_loading
from testing.harness.device import device
from testing.harness.tensors import to_numpy
from testing.oracles.error_model.noise import gamma

ROWS, COLUMNS = 300, 96


def weight_of(seed: int) -> torch.Tensor:
    return torch.randn((ROWS, COLUMNS), generator=torch.Generator().manual_seed(seed)).bfloat16()


def ready(layer: torch.nn.Module, weight: torch.Tensor | None) -> None:
    load_weights(layer, {} if weight is None else {"weight": weight})
    process_weights_after_loading(layer)


def embedding() -> VocabParallelEmbedding:
    layer = VocabParallelEmbedding(ROWS, COLUMNS, prefix="embed", device=device())
    ready(layer, weight_of(0))
    return layer


def test_a_token_has_its_row() -> None:
    ids = torch.tensor([0, 299, 17, 17], device=device())
    assert torch.equal(embedding()(ids).cpu(), weight_of(0)[ids.cpu()])
    assert embedding()(ids[:0]).shape == (0, COLUMNS)


@pytest.mark.parametrize("slice_size", [2**22, 7 * COLUMNS])
def test_logits_are_sums_of_float32(slice_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logits_module, "SLICE", slice_size)
    layer = VocabParallelHead(ROWS, COLUMNS, prefix="lm_head", device=device())
    ready(layer, weight_of(1))
    hidden = torch.randn((5, COLUMNS), generator=torch.Generator().manual_seed(2)).bfloat16()
    got = layer(hidden.to(device()))
    assert got.dtype is torch.float32 and got.shape == (5, ROWS)
    x, w = to_numpy(hidden), to_numpy(weight_of(1))
    bound = gamma(COLUMNS) * (np.abs(x) @ np.abs(w).T)
    assert (np.abs(to_numpy(got) - x @ w.T) <= bound).all()
    # A rounding to bfloat16 would be seen.
    rounded = to_numpy(got.bfloat16())
    assert (np.abs(rounded - x @ w.T) > bound).mean() > 0.9


def test_a_tied_head_has_the_embedding_s_weight_and_follows_its_reload() -> None:
    tied = embedding()
    head = VocabParallelHead(ROWS, COLUMNS, tied_to=tied, prefix="lm_head", device=device())
    ready(head, None)
    hidden = torch.ones((1, COLUMNS), dtype=torch.bfloat16, device=device())
    before = head(hidden)
    tied.begin_weight_reload()
    ready(tied, -weight_of(0))
    assert torch.equal(head(hidden), -before)


def test_what_does_not_fit_is_refused() -> None:
    layer = embedding()
    with pytest.raises(ValueError, match=r"input_ids is \(2,\) torch.int32"):
        layer(torch.zeros(2, dtype=torch.int32, device=device()))
    if device().type == "cpu":
        with pytest.raises(ValueError, match="input_ids reach from -1 to 300, wanted 0 to 299"):
            layer(torch.tensor([-1, 300]))
    head = VocabParallelHead(ROWS, COLUMNS, prefix="lm_head", device=device())
    ready(head, weight_of(1))
    with pytest.raises(ValueError, match=r"hidden is \(1, 96\) torch.float32"):
        head(torch.ones((1, COLUMNS), device=device()))
