"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from layers.attention.metadata import AttentionMetadata
from layers.attention.mla.choice import ChosenMLA, Requested, requested_by_use
from layers.attention.mla.input_checks import check_input, check_options, check_ready
from layers.attention.mla.kv_cache import MLAKVCache
from layers.attention.mla.parts import absorb, keys_and_values, split_by_head, unabsorb
from layers.copyable import replace_parameter
from layers.errors import WeightLoadError
from layers.kernels.mla.problem import MLASpec
from layers.linear.column import ColumnParallelLinear
from layers.linear.tensor_parallel import TensorParallel
from layers.loadable import LoadableLayer
from layers.quantization.base import LinearMethodBase, QuantizationConfig
from layers.rotary.embedding import RotaryEmbedding
from layers.sharding import ShardId


class MLAAttention(LoadableLayer):
    """Attention to a latent kv_c (R values) and one rotated key k_pe a token, shared by all heads.

    `kv_b_proj` makes each head's key [W_UK kv_c | k_pe] and value W_UV kv_c of them, for prompts
    without prefix; all else takes the absorbed path, which multiplies by the two halves of its
    weight.

    The life of a layer: construct, load "kv_b_proj.weight" and its scales through the loader, call
    `process_weights_after_loading`, then `forward`. README.md beside this file tells it.

    Args:
        num_heads: of all ranks of the tensor parallel group, which divide them.
        qk_nope_head_dim, qk_rope_head_dim: values of a query that are not rotated, and that are.
        v_head_dim: of a value.
        kv_lora_rank: R.
        scaling: of the logits; None is (nope + rope) ** -0.5.
        quant_config: of kv_b_proj, chosen by its prefix; None is unquantised.
        rotary: turns the last values of q, and k_pe; None where they come rotated. DeepSeek's is of
            style "gptj".
        params_dtype: of all inputs and of the output: float16 or bfloat16.
        prefix: the layer's name in the model, such as "model.layers.0.self_attn".
        backend: a backend's name, "auto" to choose by capability, or names by use, such as
            {"extend": "triton", "decode": "flashmla"}; uses are "extend", "decode" and "draft" (of
            the absorbed path), and "unabsorbed".
        path: "absorbed" keeps prompts without prefix from the unabsorbed path.
        device: where the layer runs; None is torch's default device.
        tp_rank, tp_size: None takes those of the parallel state.

    Attributes:
        w_kc: (heads of this rank, nope, R) and w_vc: (heads of this rank, R, v_head_dim), of
            params_dtype; made by post-load.
        write_cache: puts latents in the cache; cache, slots, kv_c, k_pe.
        attend: the absorbed path's operation; q (T, H, R + rope), cache, metadata -> (T, H, R).
        attend_unabsorbed: the other's; q, k (T, H, nope + rope), v, metadata -> (T, H, v_head_dim);
            None where no backend has it.

    Raises:
        ValueError: sizes below 1, heads that do not divide, or an option that makes no sense.
    """

    attend: Callable[..., torch.Tensor]
    attend_unabsorbed: Callable[..., torch.Tensor] | None
    _made_from: LinearMethodBase | None

    def __init__(
        self,
        num_heads: int,
        qk_nope_head_dim: int,
        qk_rope_head_dim: int,
        v_head_dim: int,
        kv_lora_rank: int,
        *,
        scaling: float | None = None,
        quant_config: QuantizationConfig | None = None,
        rotary: RotaryEmbedding | None = None,
        params_dtype: torch.dtype = torch.bfloat16,
        prefix: str = "",
        backend: Requested = "auto",
        path: str = "auto",
        device: torch.device | str | None = None,
        tp_rank: int | None = None,
        tp_size: int | None = None,
    ) -> None:
        super().__init__()
        sizes = {
            "kv_lora_rank": kv_lora_rank,
            "qk_nope_head_dim": qk_nope_head_dim,
            "qk_rope_head_dim": qk_rope_head_dim,
            "v_head_dim": v_head_dim,
        }
        check_options(
            *(prefix, {"num_heads": num_heads, **sizes}, params_dtype, scaling, rotary, path)
        )
        heads = TensorParallel.resolve(prefix, tp_rank, tp_size).split(
            prefix, "num_heads", num_heads
        )
        self.prefix = prefix
        self.params_dtype = params_dtype
        self.path = path
        self.requested = requested_by_use(prefix, backend)
        self._all_uses = isinstance(backend, str)
        self.rotary = rotary
        self.spec = MLASpec(
            dtype=params_dtype,
            num_heads=heads.size,
            scaling=(
                (qk_nope_head_dim + qk_rope_head_dim) ** -0.5 if scaling is None else float(scaling)
            ),
            **sizes,
        )
        self.kv_b_proj = ColumnParallelLinear(
            kv_lora_rank,
            num_heads * (qk_nope_head_dim + v_head_dim),
            params_dtype=params_dtype,
            quant_config=quant_config,
            prefix=f"{prefix}.kv_b_proj" if prefix else "kv_b_proj",
            device=device,
            tp_rank=tp_rank,
            tp_size=tp_size,
        )
        self.write_cache: Callable[..., None] = MLAKVCache.write
        self._drop_parts()

    @property
    def device(self) -> torch.device:
        """Where the layer runs."""
        return self.kv_b_proj.device

    @property
    def is_ready(self) -> bool:
        """Whether post-load has run on the weight that kv_b_proj holds now."""
        return self.kv_b_proj.is_ready and self._made_from is self.kv_b_proj.quant_method

    @property
    def shard_ids(self) -> tuple[ShardId, ...]:
        """It has no tensors of its own: they are kv_b_proj's."""
        return (None,)

    @property
    def backends(self) -> dict[str, str]:
        """The backend of each use, for the cache seen last; a use that has none is missing."""
        return dict(self._chosen.backends) if self.is_ready else {}

    def weight_loader_v2(
        self, param: torch.nn.Parameter, loaded_weight: torch.Tensor, shard_id: ShardId = None
    ) -> None:
        """Refuses: checkpoint tensors are kv_b_proj's.

        Raises:
            WeightLoadError: always.
        """
        raise WeightLoadError(
            f"layer '{self.prefix}' has no parameter of its own to load: load "
            f"'{self.kv_b_proj.prefix}.weight' and its scales into kv_b_proj."
        )

    def missing_weights(self) -> list[str]:
        """None: kv_b_proj names its own."""
        return []

    def process_weights_after_loading(self) -> None:
        """Readies kv_b_proj, takes W_UK and W_UV from it and chooses backends; nothing if ready.

        Raises:
            WeightLoadError: kv_b_proj lacks a tensor.
            ValueError: its quantisation method does not give its weight back.
            BackendUnavailable: the backend asked for cannot run here.
        """
        if self.is_ready:
            return
        self.kv_b_proj.process_weights_after_loading()
        chosen = ChosenMLA(
            self.prefix, self.spec, self.device, self.requested, all_uses=self._all_uses
        )
        w_kc, w_vc = split_by_head(self.kv_b_proj.dequantised_weight(), self.spec)
        replace_parameter(self, "w_kc", w_kc)
        replace_parameter(self, "w_vc", w_vc)
        self._chosen = chosen
        self.attend = chosen
        self.attend_unabsorbed = chosen.unabsorbed
        self._made_from = self.kv_b_proj.quant_method

    def begin_weight_reload(self) -> None:
        """Drops what was made of kv_b_proj's weight, and has that one load again.

        CUDA graphs captured before must be captured again.
        """
        self.kv_b_proj.begin_weight_reload()
        self._drop_parts()

    def plan(self, cache: MLAKVCache, metadata: AttentionMetadata) -> None:
        """Lets the backend plan for a batch, as `forward` does if nobody did.

        A CUDA graph's capture needs it before: planning waits for the GPU.

        Raises:
            BackendUnavailable: no backend can run with this cache, or the one asked for cannot.
        """
        check_ready(self)
        if not metadata.num_tokens:
            # FlashInfer's planner would divide by the number of requests.
            return
        if self.is_unabsorbed(cache, metadata):
            assert self._chosen.unabsorbed is not None
            self._chosen.unabsorbed.plan(metadata)
        else:
            self._chosen.choose(cache, metadata).plan(cache, metadata)

    def forward(
        self,
        q: torch.Tensor,
        kv_c: torch.Tensor,
        k_pe: torch.Tensor,
        positions: torch.Tensor,
        cache: MLAKVCache,
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """Rotates, writes the latents into the cache, then attends to all of each request.

        Args:
            q: (T, num_heads, nope + rope), heads of this rank, not rotated.
            kv_c: (T, R), normalised.
            k_pe: (T, rope), not rotated.
            positions: (T,) int64, by which q and k_pe are rotated.
            cache: of this layer alone.
            metadata: of the batch.

        Returns:
            (T, num_heads · v_head_dim), of params_dtype as all inputs.

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: something of another shape, dtype or device.
            BackendUnavailable: no backend can run with this cache, or the one asked for cannot.
        """
        check_input(self, q, kv_c, k_pe, positions, cache, metadata)
        if not metadata.num_tokens:
            return q.new_empty((0, self.spec.num_heads * self.spec.v_head_dim))
        self.plan(cache, metadata)
        q_nope, q_pe = q.split((self.spec.qk_nope_head_dim, self.spec.qk_rope_head_dim), dim=-1)
        q_pe, k_pe = self.rotate(positions, q_pe, k_pe)
        self.write_cache(cache, metadata.slots, kv_c, k_pe)
        if self.is_unabsorbed(cache, metadata):
            return self.forward_unabsorbed(q_nope, q_pe, kv_c, k_pe, metadata)
        latent = self.attend(self.absorb(q_nope, q_pe), cache, metadata)
        return self.unabsorb(latent).flatten(1)

    def is_unabsorbed(self, cache: MLAKVCache, metadata: AttentionMetadata) -> bool:
        """Whether a batch takes the unabsorbed path: prompts without prefix, none from codes."""
        return (
            metadata.mode == "extend"
            and self.path == "auto"
            and self._chosen.unabsorbed is not None
            and not cache.is_fp8
            and metadata.query_lens_host == metadata.kv_lens_host
        )

    def forward_unabsorbed(
        self,
        q_nope: torch.Tensor,
        q_pe: torch.Tensor,
        kv_c: torch.Tensor,
        k_pe: torch.Tensor,
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """The unabsorbed path from rotated q_pe (T, H, rope) and k_pe (T, rope): (T, H · v)."""
        k, v = keys_and_values(self.kv_b_proj(kv_c), k_pe, self.spec)
        assert self.attend_unabsorbed is not None
        return self.attend_unabsorbed(torch.cat((q_nope, q_pe), dim=-1), k, v, metadata).flatten(1)

    def rotate(
        self, positions: torch.Tensor, q_pe: torch.Tensor, k_pe: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """q_pe (T, H, rope), k_pe (T, rope) -> the same, rotated where the layer has a rotary."""
        if self.rotary is None:
            return q_pe, k_pe
        turned: tuple[torch.Tensor, torch.Tensor] = self.rotary(positions, q_pe, k_pe)
        return turned

    def absorb(self, q_nope: torch.Tensor, q_pe: torch.Tensor) -> torch.Tensor:
        """q_nope (T, H, nope) times W_UK, beside q_pe (T, H, rope) -> (T, H, R + rope)."""
        return absorb(q_nope, q_pe, self.w_kc)

    def unabsorb(self, latent: torch.Tensor) -> torch.Tensor:
        """latent (T, H, R) times W_UV -> (T, H, v_head_dim)."""
        return unabsorb(latent, self.w_vc)

    def extra_repr(self) -> str:
        """Name and sizes on this rank, for `print(model)`."""
        s = self.spec
        return (
            f"'{self.prefix}', {s.num_heads} heads of {s.qk_nope_head_dim}+{s.qk_rope_head_dim}, "
            f"values of {s.v_head_dim}, latents of {s.kv_lora_rank}"
        )

    def _drop_parts(self) -> None:
        self._made_from = None
        for name in ("w_kc", "w_vc"):
            self.register_parameter(name, None)
