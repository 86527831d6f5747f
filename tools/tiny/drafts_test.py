"""Accept lengths by hand, and a chain's drafts against the chain run step by step."""

from typing import Any

import torch

from testing.oracles.models.build import build
from tools.tiny.data import Texts
from tools.tiny.drafts import accept_lengths, chain_hits

CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "vocab_size": 11,
    "hidden_size": 16,
    "intermediate_size": 16,
    "moe_intermediate_size": 8,
    "num_hidden_layers": 1,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 2,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 4,
    "v_head_dim": 4,
    "n_routed_experts": 2,
    "num_experts_per_tok": 1,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
    "rms_norm_eps": 1e-6,
    "initializer_range": 0.5,
}


class Counting:
    """Says n + 1 after n, and drafts so too, but for one wrong token after each multiple of 4."""

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        return ids[..., None].float()

    def draft_hidden(self, ids: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        wrong = (ids % 4 == 0) & (ids > 0)
        return (ids + torch.where(wrong, 2, 1))[..., None].float()

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(hidden[..., 0].long(), 64).float()


def test_lengths_by_hand() -> None:
    ids = torch.arange(1, 13)[None]
    counted = ids > 3
    some = Texts(ids, counted, torch.zeros(1, dtype=torch.int64))
    # 4 comes out of the prompt. After 4 the draft is wrong: 5 alone. After 5: 6, 7, then the
    # model's own 8. After 8: 9. After 9: 10, 11, and 12, the end.
    assert accept_lengths(Counting(), some, 2) == [[1, 3, 1, 3]]
    assert accept_lengths(Counting(), some, 1) == [[1, 2, 2, 2, 1]]


def _one_chain(model: Any, ids: torch.Tensor, place: int, steps: int) -> list[int]:
    """Drafts after ids[: place + 2], one row, each step appending what the last one made."""
    states, tokens, drafts = model.hidden(ids)[:, : place + 1], ids[:, 1 : place + 2], []
    for _ in range(steps):
        last = model.draft_hidden(tokens, states)[:, -1:]
        drafts.append(int(model.logits(last).argmax()))
        states = torch.cat((states, last), 1)
        tokens = torch.cat((tokens, torch.tensor([[drafts[-1]]])), 1)
    return drafts


def test_hits_are_those_of_each_chain() -> None:
    model = build(CONFIG, torch.float64)
    model.initialise(3)
    ids = torch.randint(11, (3, 8), generator=torch.Generator().manual_seed(1))
    counted = torch.ones_like(ids, dtype=torch.bool)
    counted[:, 0] = False
    hits = chain_hits(model, Texts(ids, counted, torch.zeros(3, dtype=torch.int64)), 2)
    for row in range(3):
        for place in range(5):
            drafts = _one_chain(model, ids[row : row + 1], place, 2)
            wanted = [draft == int(ids[row, place + 2 + k]) for k, draft in enumerate(drafts)]
            assert hits[row, place].tolist() == wanted


def test_nothing_is_drafted_outside_the_answers() -> None:
    ids = torch.arange(1, 13).expand(2, 12)
    counted = torch.stack((ids[0] > 3, (ids[0] > 5) & (ids[0] < 9)))
    hits = chain_hits(Counting(), Texts(ids, counted, torch.zeros(2, dtype=torch.int64)), 1)
    # A chain begins before each place of an answer but its end's; after 4 and 8 drafts are wrong.
    assert hits.any(-1).nonzero().tolist() == [
        *([0, i] for i in (3, 4, 5, 7, 8, 9)),
        *([1, i] for i in (4, 5)),
    ]
