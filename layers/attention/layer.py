"""Attention over a paged KV cache: dense or in a sliding window, with any sharing of KV heads."""

from __future__ import annotations

from collections.abc import Callable

import torch

from layers.attention.base import AttentionBase
from layers.attention.choice import ChosenAttention
from layers.attention.input_checks import check_input, check_options
from layers.attention.kv_cache import PagedKVCache
from layers.attention.metadata import AttentionMetadata
from layers.kernels.attention.problem import AttentionSpec
from layers.linear.heads import split_heads
from layers.linear.tensor_parallel import TensorParallel
from layers.parameter import FLOAT_DTYPES, BiasParameter
from layers.quantization.base import check_backend
from layers.sharding import LinearLayout, Span, check_integers


class Attention(AttentionBase):
    """softmax(scaling · q kᵀ) v over the keys that a query sees; the heads divide over the ranks.

    The life of a layer: construct, load `sinks` if it has them through `weight_loader_v2`, call
    `process_weights_after_loading`, which chooses the backends, then `forward`. README.md beside
    this file tells it.

    Args:
        num_heads: query heads of all ranks.
        num_kv_heads: key-value heads of all ranks, which divide the query heads; where there are
            more ranks, each such head is held by several.
        head_dim: of queries and keys.
        v_head_dim: of values; None is head_dim.
        scaling: of q·k; None is head_dim ** -0.5.
        sliding_window: keys that a query sees, its own included; None is all before it.
        logit_soft_cap: cap · tanh(logit / cap), after scaling; 0 is none.
        has_sinks: whether each query head has a learnt logit, neither scaled nor capped, that takes
            its share of the softmax and has no value. Checkpoint tensor `sinks` (num_heads,).
        params_dtype: of q, k, v and the output: float16 or bfloat16.
        prefix: the layer's name in the model, such as "model.layers.0.self_attn.attn".
        backend: "torch", "triton" or "flashinfer"; "auto" or None chooses by capability.
        device: where the layer runs; None is torch's default device.
        tp_rank, tp_size: None takes those of the parallel state.

    Attributes:
        spec: the sizes of this rank, and the options.
        write_cache: puts keys and values in their slots; (cache, slots, k, v).
        attend: the chosen backends' operation; (q, cache, metadata, sinks).

    Raises:
        ValueError: sizes below 1, heads that do not divide, or an option that makes no sense.
    """

    def __init__(
        self,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        *,
        v_head_dim: int | None = None,
        scaling: float | None = None,
        sliding_window: int | None = None,
        logit_soft_cap: float = 0.0,
        has_sinks: bool = False,
        params_dtype: torch.dtype = torch.bfloat16,
        prefix: str = "",
        backend: str | None = "auto",
        device: torch.device | str | None = None,
        tp_rank: int | None = None,
        tp_size: int | None = None,
    ) -> None:
        super().__init__(prefix, device)
        check_options(prefix, params_dtype, scaling, sliding_window, logit_soft_cap)
        v_head_dim = head_dim if v_head_dim is None else v_head_dim
        check_integers(prefix, head_dim=head_dim, v_head_dim=v_head_dim)
        tp = TensorParallel.resolve(prefix, tp_rank, tp_size)
        size = min(head_dim, v_head_dim)
        self._heads, kv_heads = split_heads(prefix, tp, size, num_heads, num_kv_heads)
        self.params_dtype = params_dtype
        self.requested_backend = None if backend == "auto" else check_backend(backend)
        self.spec = AttentionSpec(
            dtype=params_dtype,
            num_heads=self._heads.size,
            num_kv_heads=kv_heads.size,
            head_dim=head_dim,
            v_head_dim=v_head_dim,
            scaling=head_dim**-0.5 if scaling is None else float(scaling),
            sliding_window=sliding_window,
            logit_soft_cap=float(logit_soft_cap),
            has_sinks=has_sinks,
        )
        self.write_cache: Callable[..., None] = PagedKVCache.write
        self.begin_weight_reload()

    @property
    def num_heads(self) -> int:
        """Query heads of this rank."""
        return self.spec.num_heads

    @property
    def num_kv_heads(self) -> int:
        """Key-value heads of this rank."""
        return self.spec.num_kv_heads

    @property
    def backends(self) -> dict[str, str]:
        """The backend of each mode, "extend", "decode" and "draft", for the cache seen last.

        A mode that the backend asked for does not have is missing.
        """
        return dict(self._chosen.backends) if self.is_ready else {}

    def create_parameters(self) -> None:
        """Registers `sinks` (heads of this rank,) float32."""
        if not self.spec.has_sinks:
            self.register_parameter("sinks", None)
            return
        layout = LinearLayout.stacked(self.prefix, [(None, self._heads)], Span.whole(1))
        self.sinks = BiasParameter(
            layout,
            name="sinks",
            dtype=torch.float32,
            device=self.device,
            accepted_dtypes=FLOAT_DTYPES,
        )

    def choose_backends(self) -> None:
        """Chooses by device and shape; a cache's dtype and page size have their say in forward."""
        self._chosen = ChosenAttention(self.prefix, self.spec, self.device, self.requested_backend)
        self.attend: Callable[..., torch.Tensor] = self._chosen

    def plan(self, cache: PagedKVCache, metadata: AttentionMetadata) -> None:
        """Lets the backend plan for a batch, as `forward` does if nobody did.

        A CUDA graph's capture needs it before: planning waits for the GPU.

        Raises:
            BackendUnavailable: no backend can run with this cache, or the one asked for cannot.
        """
        self.check_ready()
        backend = self._chosen.choose(cache, metadata)
        # Wrappers take the largest length of no request.
        if metadata.num_tokens:
            backend.plan(cache, metadata)

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        cache: PagedKVCache,
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """Writes k and v into the cache, then attends to all keys of each request.

        Args:
            q: (T, num_heads, head_dim), k: (T, num_kv_heads, head_dim), v: (T, num_kv_heads,
                v_head_dim), of params_dtype; heads of this rank, rotated already.
            cache: of this layer alone.
            metadata: of the batch.

        Returns:
            (T, num_heads · v_head_dim) of params_dtype.

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: something of another shape, dtype or device.
            BackendUnavailable: no backend can run with this cache, or the one asked for cannot.
        """
        check_input(self, q, k, v, cache, metadata)
        self.plan(cache, metadata)
        if not metadata.num_tokens:
            return q.new_empty((0, self.spec.num_heads * self.spec.v_head_dim))
        self.write_cache(cache, metadata.slots, k, v)
        sinks = self.sinks
        out = self.attend(q, cache, metadata, None if sinks is None else sinks.data)
        return out.flatten(1)

    def extra_repr(self) -> str:
        """Name, heads on this rank and options, for `print(model)`."""
        s = self.spec
        window = "" if s.sliding_window is None else f", window {s.sliding_window}"
        sinks = ", sinks" if s.has_sinks else ""
        heads = f"{s.num_heads} heads of {s.head_dim}, {s.num_kv_heads} of keys"
        return f"'{self.prefix}', {heads}{window}{sinks}"
