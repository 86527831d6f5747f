"""A model that predicts the next token: what an engine calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from layers.attention.metadata import AttentionMetadata
from layers.models.build import Build
from layers.models.checkpoint.cache_scales import cache_scale_tensors
from layers.models.checkpoint.expected import Wanted, wanted_of_experts, wanted_tensors
from layers.models.config.base import ModelConfig
from layers.models.decoder import Cache, Decoder, DecoderLayer, SelfAttention, check_caches
from layers.models.draft import Draft, DraftLayer
from layers.models.names import PACKED_MODULES, to_checkpoint, to_model
from layers.moe.layer import FusedMoE
from layers.vocab.head import VocabParallelHead


class CausalLM(torch.nn.Module):  # type: ignore[misc]
    """Embedding, decoder layers, norm and head; made by `layers.models.load.load_model`.

    Every rank of a tensor parallel group makes the same calls. No decode forward waits for the GPU,
    and its shapes depend on the number of requests alone: it can be captured in a CUDA graph.

    Args:
        build: what all layers are built with.
        config: of the model.
        layers: its decoder layers, and behind them one that drafts, if `config` has one.

    Attributes:
        config: as read from the folder.
        params_dtype: of activations.
        draft: the module that drafts tokens, or None.
    """

    def __init__(self, build: Build, config: ModelConfig, layers: Sequence[DecoderLayer]) -> None:
        super().__init__()
        self.config = config
        self.params_dtype = build.params_dtype
        self.device = build.device
        self.model = Decoder(build, config, layers)
        self.lm_head = VocabParallelHead(
            config.vocab_size,
            config.hidden_size,
            tied_to=self.model.embed_tokens if config.tie_word_embeddings else None,
            params_dtype=build.params_dtype,
            prefix="lm_head",
            device=build.device,
        )

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        caches: Sequence[Cache],
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """Writes this call's tokens into the caches and gives their hidden states.

        Args:
            input_ids: (T,) int64, tokens of all requests, one after the other.
            positions: (T,) int64, each token's place in its text: `metadata.positions`.
            caches: of `make_caches`.
            metadata: of the batch.

        Returns:
            (T, hidden) of params_dtype, after the final norm.

        Raises:
            ValueError: something of another shape, dtype or device.
            BackendUnavailable: no backend can run with these caches, or the one asked for cannot.
        """
        check_caches(caches, self.config.num_layers)
        out: torch.Tensor = self.model(input_ids, positions, caches, metadata)
        return out

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden (n, hidden), of `forward` or the draft's -> (n, vocabulary) float32."""
        out: torch.Tensor = self.lm_head(hidden)
        return out

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def plan(self, caches: Sequence[Cache], metadata: AttentionMetadata) -> None:
        """Lets every layer's attention plan for a batch; before a CUDA graph's capture."""
        check_caches(caches, self.config.num_layers)
        for layer, cache in zip(self.model.decoder_layers, caches, strict=True):
            layer.self_attn.plan(cache, metadata)

    def make_caches(
        self, num_pages: int, page_size: int, dtype: torch.dtype | None = None
    ) -> list[Cache]:
        """One a decoder layer, of this rank's heads.

        Args:
            num_pages: of the pool.
            page_size: tokens a page: 1, 16, 32 or 64.
            dtype: params_dtype or float8_e4m3fn; None is params_dtype.

        Raises:
            ValueError: a dtype that no kernel reads.
        """
        dtype = self.params_dtype if dtype is None else dtype
        return [
            layer.self_attn.make_cache(num_pages, page_size, dtype)
            for layer in self.model.decoder_layers
        ]

    def cache_bytes_per_token(self, dtype: torch.dtype | None = None) -> int:
        """Bytes that a token takes in this rank's caches, the draft's left out."""
        itemsize = (self.params_dtype if dtype is None else dtype).itemsize
        values = sum(layer.self_attn.values_per_token for layer in self.model.decoder_layers)
        return int(values * itemsize)

    @property
    def draft(self) -> Draft | None:
        """The module that drafts tokens, or None."""
        last = self.model.layers[-1]
        return Draft(last, self.model.embed_tokens) if isinstance(last, DraftLayer) else None

    def wanted_tensors(self) -> dict[str, Wanted]:
        """The checkpoint's tensors by name, of a model that is not loaded yet."""
        found = wanted_tensors(self, PACKED_MODULES, self.wanted_of_experts)
        return {to_checkpoint(name): wanted for name, wanted in found.items()}

    def wanted_of_experts(self, path: str, layer: FusedMoE) -> Iterable[tuple[str, Wanted]]:
        """A layer's tensors of experts by name."""
        return wanted_of_experts(path, layer)

    def spare_tensors(self) -> dict[str, Wanted | None]:
        """Tensors that a checkpoint may hold besides, by name; None is one of any shape."""
        rotary = (
            f"model.layers.{i}.self_attn.rotary_emb.inv_freq" for i in range(self.model.depth)
        )
        wanted = self.wanted_tensors()
        copies = {name: wanted[original] for name, original in self.copied_tensors().items()}
        scales = cache_scale_tensors(self.attentions()) if self.config.has_cache_scales else {}
        return {**dict.fromkeys(rotary), **copies, **scales}

    def attentions(self) -> list[dict[str, SelfAttention]]:
        """By path, those of the decoder layers, and those of the draft."""
        named = [
            (f"model.layers.{i}.self_attn", m.self_attn) for i, m in enumerate(self.model.layers)
        ]
        return [dict(named[: self.model.depth]), dict(named[self.model.depth :])]

    def copied_tensors(self) -> dict[str, str]:
        """Tensors that some writers save twice, by the second name: they must be equal."""
        embedding = "model.embed_tokens.weight"
        head = embedding if self.config.tie_word_embeddings else "lm_head.weight"
        copies = {"lm_head.weight": embedding} if self.config.tie_word_embeddings else {}
        for index in range(self.model.depth, len(self.model.layers)):
            copies[f"model.layers.{index}.embed_tokens.weight"] = embedding
            copies[f"model.layers.{index}.shared_head.head.weight"] = head
        return copies

    def adapted(
        self, tensors: Iterator[tuple[str, torch.Tensor]]
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Checkpoint tensors as `layers.weights.load_weights` takes them for this model."""
        for name, tensor in tensors:
            yield to_model(name), tensor

    @staticmethod
    def packed_modules() -> Mapping[str, Sequence[str]]:
        """The checkpoint modules of each fused layer."""
        return PACKED_MODULES
