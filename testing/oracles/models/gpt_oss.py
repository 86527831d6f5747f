"""gpt-oss (OpenAI 2025, arXiv 2508.10925, and its published config.json and weights).

Grouped-query attention with biases and sinks, every other layer in a sliding window; experts with
biases, chosen by a softmax over the k best logits, and a clamped SwiGLU: gate at most `limit`, up
within ±limit, h = gate · sigmoid(1.702 · gate) · (up + 1).
"""

import torch

from testing.oracles.models.decoder import ReferenceModel
from testing.oracles.models.parts import Cached, Config, Linear, Rotary, Stored, attend

ALPHA = 1.702


class SinkAttention(torch.nn.Module):  # type: ignore[misc]
    """Attention whose softmax has one more logit a head, without a value."""

    def __init__(self, config: Config, index: int) -> None:
        super().__init__()
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        kv_heads, size = config["num_key_value_heads"], config["head_dim"]
        self.head_dim: int = size
        self.q_proj = Linear(hidden, heads * size, bias=True, quantised=False)
        self.k_proj = Linear(hidden, kv_heads * size, bias=True, quantised=False)
        self.v_proj = Linear(hidden, kv_heads * size, bias=True, quantised=False)
        self.o_proj = Linear(heads * size, hidden, bias=True, quantised=False, is_sum=True)
        self.sinks = torch.nn.Parameter(torch.zeros(heads))
        self.rotary = Rotary(size, config, "neox")
        is_local = config["layer_types"][index] == "sliding_attention"
        self.window: int | None = config["sliding_window"] if is_local else None
        self.keys = Cached()
        self.values = Cached()
        self.weights = Stored(in_kernels=True)
        self.out = Stored()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (B, T, hidden) -> the same shape."""
        q, k, v = (
            project(x).unflatten(-1, (-1, self.head_dim))
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        turned = self.rotary(q), self.keys(self.rotary(k))
        out = attend(
            *turned, self.values(v), self.head_dim**-0.5, self.window, self.sinks, self.weights
        )
        return self.o_proj(self.out(out.flatten(2)))


class Router(torch.nn.Module):  # type: ignore[misc]
    """Softmax over the k largest logits."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        experts = config["num_local_experts"]
        self.weight = torch.nn.Parameter(torch.empty(experts, config["hidden_size"]))
        self.bias = torch.nn.Parameter(torch.zeros(experts))
        self.k: int = config["num_experts_per_tok"]
        # (tokens, k) of another's choice, for a test that compares what follows from it.
        self.forced: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x (tokens, hidden) -> weights and experts chosen, (tokens, k) each."""
        scores = self.scores(x)
        chosen = self.forced if self.forced is not None else self.choose(scores)
        return scores.gather(1, chosen).softmax(dim=1), chosen

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """x (tokens, hidden) -> logits (tokens, experts)."""
        return x @ self.weight.t() + self.bias

    def choose(self, scores: torch.Tensor) -> torch.Tensor:
        """The k largest."""
        return scores.topk(self.k, dim=1).indices


class Experts(torch.nn.Module):  # type: ignore[misc]
    """All experts' weights in one tensor a matmul, gate and up columns in turn, as stored."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        count, hidden = config["num_local_experts"], config["hidden_size"]
        size = config["intermediate_size"]
        self.gate_up_proj = torch.nn.Parameter(torch.empty(count, hidden, 2 * size))
        self.gate_up_proj_bias = torch.nn.Parameter(torch.zeros(count, 2 * size))
        self.down_proj = torch.nn.Parameter(torch.empty(count, size, hidden))
        self.down_proj_bias = torch.nn.Parameter(torch.zeros(count, hidden))
        self.limit: float = config.get("swiglu_limit", 7.0)
        self.h = Stored()

    def forward(self, x: torch.Tensor, expert: int) -> torch.Tensor:
        """x (tokens, hidden) -> the same shape, of one expert."""
        both = x @ self.gate_up_proj[expert] + self.gate_up_proj_bias[expert]
        gate = both[:, 0::2].clamp(max=self.limit)
        up = both[:, 1::2].clamp(-self.limit, self.limit)
        h = self.h(gate * torch.sigmoid(ALPHA * gate) * (up + 1))
        return h @ self.down_proj[expert] + self.down_proj_bias[expert]


class SparseMLP(torch.nn.Module):  # type: ignore[misc]
    """The k chosen experts by their weights."""

    def __init__(self, config: Config, index: int) -> None:
        super().__init__()
        self.router = Router(config)
        self.experts = Experts(config)
        self.count: int = config["num_local_experts"]
        self.routed = Stored(is_sum=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (B, T, hidden) -> the same shape."""
        rows = x.flatten(0, -2)
        weights, chosen = self.router(rows)
        out = torch.zeros_like(rows)
        for index in range(self.count):
            token, choice = (chosen == index).nonzero(as_tuple=True)
            made = self.experts(rows[token], index) * weights[token, choice, None]
            out = out.index_add(0, token, made)
        return self.routed(out).view_as(x)


class GptOss(ReferenceModel):
    """`GptOssForCausalLM`."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, SinkAttention, SparseMLP)
