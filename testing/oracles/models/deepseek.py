"""DeepSeek-V3 (arXiv 2412.19437): latent attention, mixture of experts, multi-token prediction.

Attention: section 2.1.1, and YaRN's factor of the softmax scale as in the published model. Experts:
section 2.1.2, equations 12 to 16 and the grouped choice of the published model. The module that
predicts the token after the next: section 2.2, equations 21 to 23; it joins the embedding and the
hidden state in the order of the published weights, embedding first.
"""

import math

import torch

from testing.oracles.models.decoder import DecoderLayer, ReferenceModel
from testing.oracles.models.experts import SparseMLP
from testing.oracles.models.parts import (
    MLP,
    Cached,
    Config,
    Linear,
    RMSNorm,
    Rotary,
    Stored,
    attend,
)


class LatentAttention(torch.nn.Module):  # type: ignore[misc]
    """Keys and values of all heads from one latent a token, and one rotated key for all heads.

    Attributes:
        absorbed_from: tokens from here on are to round as if kv_b_proj's weight had been multiplied
            into queries and outputs (section 2.1.2 of arXiv 2405.04434); None: no token is. But
            for what is stored in between, both give the same.
        absorbed_weight: kv_b_proj's weight as such an implementation holds it; None is the same.
    """

    def __init__(self, config: Config, index: int) -> None:
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.heads: int = config["num_attention_heads"]
        self.nope: int = config["qk_nope_head_dim"]
        self.rope: int = config["qk_rope_head_dim"]
        self.v_dim: int = config["v_head_dim"]
        self.rank: int = config["kv_lora_rank"]
        q_size = self.heads * (self.nope + self.rope)
        if config.get("q_lora_rank"):
            self.q_a_proj = Linear(hidden, config["q_lora_rank"])
            self.q_a_layernorm = RMSNorm(config["q_lora_rank"], eps)
            self.q_b_proj = Linear(config["q_lora_rank"], q_size)
        else:
            self.q_proj = Linear(hidden, q_size)
        self.kv_a_proj_with_mqa = Linear(hidden, self.rank + self.rope)
        self.kv_a_layernorm = RMSNorm(self.rank, eps)
        self.kv_b_proj = Linear(self.rank, self.heads * (self.nope + self.v_dim))
        self.o_proj = Linear(self.heads * self.v_dim, hidden, is_sum=True)
        self.rotary = Rotary(self.rope, config, "gptj")
        self.scaling = (self.nope + self.rope) ** -0.5 * _softmax_factor(config)
        self.absorbed_from: int | None = None
        self.absorbed_weight: torch.Tensor | None = None
        self.latents = Cached()
        self.rotated_keys = Cached()
        self.weights = Stored(in_kernels=True)
        self.absorbed_q = Stored()
        self.attended_latent = Stored()
        self.out = Stored()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (B, T, hidden) -> the same shape."""
        queries = self._queries(x).unflatten(-1, (self.heads, -1))
        q_nope, q_pe = queries.split((self.nope, self.rope), dim=-1)
        latent, k_pe = self.kv_a_proj_with_mqa(x).split((self.rank, self.rope), dim=-1)
        latent, q_pe, k_pe = (
            self.kv_a_layernorm(latent),
            self.rotary(q_pe),
            self.rotary(k_pe[:, :, None]),
        )
        out = self._unabsorbed(q_nope, q_pe, latent, k_pe)
        if self.absorbed_from is not None:
            place = torch.arange(x.shape[1], device=x.device)[:, None, None]
            absorbed = self._absorbed(q_nope, q_pe, latent, k_pe)
            out = torch.where(place >= self.absorbed_from, absorbed, out)
        return self.o_proj(self.out(out.flatten(2)))

    def _unabsorbed(
        self, q_nope: torch.Tensor, q_pe: torch.Tensor, latent: torch.Tensor, k_pe: torch.Tensor
    ) -> torch.Tensor:
        made = self.kv_b_proj(latent).unflatten(-1, (self.heads, -1))
        k_nope, v = made.split((self.nope, self.v_dim), dim=-1)
        k = torch.cat((k_nope, k_pe.expand(-1, -1, self.heads, -1)), dim=-1)
        return attend(torch.cat((q_nope, q_pe), dim=-1), k, v, self.scaling, store=self.weights)

    def _absorbed(
        self, q_nope: torch.Tensor, q_pe: torch.Tensor, latent: torch.Tensor, k_pe: torch.Tensor
    ) -> torch.Tensor:
        weight = self.kv_b_proj.weight if self.absorbed_weight is None else self.absorbed_weight
        keys, values = weight.unflatten(0, (self.heads, -1)).split((self.nope, self.v_dim), dim=1)
        q = self.absorbed_q(torch.einsum("bthn,hnr->bthr", q_nope, keys))
        shared = self.latents(latent)[:, :, None]
        found = attend(
            torch.cat((q, q_pe), dim=-1),
            torch.cat((shared, self.rotated_keys(k_pe)), dim=-1),
            shared,
            self.scaling,
            store=self.weights,
        )
        return torch.einsum("bthr,hvr->bthv", self.attended_latent(found), values)

    def _queries(self, x: torch.Tensor) -> torch.Tensor:
        if hasattr(self, "q_proj"):
            return self.q_proj(x)
        return self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))


def _softmax_factor(config: Config) -> float:
    scaling = config.get("rope_scaling") or {}
    factor, weight = scaling.get("factor", 1.0), scaling.get("mscale_all_dim", 0.0)
    if not weight or factor <= 1:
        return 1.0
    return float((0.1 * weight * math.log(factor) + 1.0) ** 2)


def _feed_forward(config: Config, index: int) -> torch.nn.Module:
    if index < config["first_k_dense_replace"]:
        return MLP(config["hidden_size"], config["intermediate_size"])
    return SparseMLP(config)


class SharedHead(torch.nn.Module):  # type: ignore[misc]
    """The norm before the head, which is the main model's."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])


class DraftLayer(DecoderLayer):
    """Predicts the token after the next: a decoder layer on eh_proj [enorm(embedded); hnorm(h)]."""

    def __init__(self, config: Config, index: int) -> None:
        super().__init__(config, index, LatentAttention, _feed_forward)
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.enorm = RMSNorm(hidden, eps)
        self.hnorm = RMSNorm(hidden, eps)
        self.eh_proj = Linear(2 * hidden, hidden, quantised=False)
        self.shared_head = SharedHead(config)

    def draft(self, embedded: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """Embeddings of tokens i + 1 and hidden states of i, (B, T, hidden) -> hidden, normed."""
        joined = torch.cat((self.enorm(embedded), self.hnorm(hidden)), dim=-1)
        return self.shared_head.norm(self(self.eh_proj(joined)))


class DeepseekV3(ReferenceModel):
    """`DeepseekV3ForCausalLM`; with `num_nextn_predict_layers` 1 its last layer is the draft's."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, LatentAttention, _feed_forward)
        if config.get("num_nextn_predict_layers", 0):
            self.model.layers.append(DraftLayer(config, config["num_hidden_layers"]))

    def draft_hidden(self, ids: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """What the draft module makes of tokens i + 1 and of hidden states of i.

        Args:
            ids: (B, T) int64, the token after each of the hidden states.
            hidden: (B, T, hidden), of the main model after its norm, or of this.

        Returns:
            (B, T, hidden); its logits predict the token after `ids`.
        """
        layer = self.model.layers[self.model.depth]
        assert isinstance(layer, DraftLayer)
        return layer.draft(self.model.embed_tokens(ids), hidden)

    def forward_with_draft(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """ids (B, T) -> logits (B, T, vocab), and the draft's (B, T - 1, vocab) of ids[i + 2]."""
        hidden = self.hidden(ids)
        draft = self.draft_hidden(ids[:, 1:], hidden[:, :-1])
        return self.logits(hidden), self.logits(draft)
