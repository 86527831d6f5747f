"""The frame of every reference model: embedding, decoder layers, norm, head."""

from typing import Protocol

import torch

from testing.oracles.models.parts import Config, RMSNorm, Stored, initialise


class MakesPart(Protocol):
    """Makes the attention or the feed-forward part of layer `index`."""

    def __call__(self, config: Config, index: int) -> torch.nn.Module:
        """A module of (B, T, hidden) -> the same shape."""


class DecoderLayer(torch.nn.Module):  # type: ignore[misc]
    """x += self_attn(norm(x)); x += mlp(norm(x))."""

    def __init__(
        self, config: Config, index: int, attention: MakesPart, feed_forward: MakesPart
    ) -> None:
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn = attention(config, index)
        self.mlp = feed_forward(config, index)
        self.input_layernorm = RMSNorm(hidden, eps)
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        self.attended = Stored()
        self.out = Stored()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (B, T, hidden) -> the same shape."""
        x = self.attended(x + self.self_attn(self.input_layernorm(x)))
        return self.out(x + self.mlp(self.post_attention_layernorm(x)))


class Decoder(torch.nn.Module):  # type: ignore[misc]
    """What checkpoints have under "model."."""

    def __init__(self, config: Config, attention: MakesPart, feed_forward: MakesPart) -> None:
        super().__init__()
        hidden = config["hidden_size"]
        self.embed_tokens = torch.nn.Embedding(config["vocab_size"], hidden)
        self.layers = torch.nn.ModuleList(
            DecoderLayer(config, index, attention, feed_forward)
            for index in range(config["num_hidden_layers"])
        )
        self.norm = RMSNorm(hidden, config["rms_norm_eps"])
        self.depth: int = config["num_hidden_layers"]

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """ids (B, T) int64 -> (B, T, hidden), after the norm."""
        x = self.embed_tokens(ids)
        for layer in list(self.layers)[: self.depth]:
            x = layer(x)
        return self.norm(x)


class ReferenceModel(torch.nn.Module):  # type: ignore[misc]
    """A causal language model; its `state_dict()` has the tensors of a checkpoint, by their names.

    Args:
        config: of config.json.
        attention, feed_forward: make the two parts of a layer.
    """

    def __init__(self, config: Config, attention: MakesPart, feed_forward: MakesPart) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config, attention, feed_forward)
        if not config.get("tie_word_embeddings", False):
            self.lm_head = torch.nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)

    def initialise(self, seed: int) -> None:
        """Random weights by `initializer_range`; norms 1, biases and sinks 0."""
        initialise(self, seed, self.config.get("initializer_range", 0.02))

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        """ids (B, T) int64 -> (B, T, hidden), after the norm."""
        return self.model(ids)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden (…, hidden) -> (…, vocab)."""
        if self.config.get("tie_word_embeddings", False):
            return hidden @ self.model.embed_tokens.weight.t()
        return self.lm_head(hidden)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """ids (B, T) int64 at positions 0 to T - 1 -> logits (B, T, vocab)."""
        return self.logits(self.hidden(ids))
