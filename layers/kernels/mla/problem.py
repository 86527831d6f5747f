"""What an MLA layer asks of an attention backend, and what a backend can take.

MLA (DeepSeek-V2, arXiv 2405.04434, section 2.1) keeps a latent of `kv_lora_rank` (R) values and a
rotated key of `qk_rope_head_dim` values for each token, which all heads share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from layers.kernels.capability import Needs, Problem

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata
    from layers.attention.mla.kv_cache import MLAKVCache


@dataclass(frozen=True)
class MLASpec:
    """The fixed part of a layer's attention, on this rank.

    dtype: of queries and outputs.
    scaling: of the logits.
    """

    dtype: torch.dtype
    num_heads: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    scaling: float

    @property
    def qk_head_dim(self) -> int:
        """Of a query, and of an unabsorbed key: nope + rope."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def latent_dim(self) -> int:
        """Values of a token in the cache, and of an absorbed query: R + rope."""
        return self.kv_lora_rank + self.qk_rope_head_dim


class AbsorbedBackend(ABC):
    """One layer's attention to latents in a paged cache, by one backend."""

    def __init__(self, spec: MLASpec) -> None:
        self.spec = spec

    def plan(self, cache: MLAKVCache, metadata: AttentionMetadata) -> None:  # noqa: B027
        """Works out on the host what the kernel needs, if anything; again does nothing.

        Raises:
            BackendUnavailable: the batch is beyond the kernel's limits.
        """

    @abstractmethod
    def __call__(
        self, q: torch.Tensor, cache: MLAKVCache, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """softmax(scaling · (q · latent)) latent[:R], over the keys that a query sees.

        Args:
            q: (T, num_heads, R + rope) of the spec's dtype, contiguous: [q_nope W_UK | q_pe].
            cache: with this call's latents written.
            metadata: of the batch.

        Returns:
            (T, num_heads, R) of q's dtype.
        """


class UnabsorbedBackend(ABC):
    """One layer's attention of prompts without prefix, to keys and values of every head."""

    def __init__(self, spec: MLASpec) -> None:
        self.spec = spec

    def plan(self, metadata: AttentionMetadata) -> None:  # noqa: B027
        """As `AbsorbedBackend.plan`."""

    @abstractmethod
    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """softmax(scaling · q kᵀ) v, causal, request by request; keys are this call's tokens.

        Args:
            q, k: (T, num_heads, nope + rope), v: (T, num_heads, v_head_dim) of the spec's dtype; v
                may have gaps between heads.
            metadata: of the batch, of mode "extend"; its cache is not read.

        Returns:
            (T, num_heads, v_head_dim) of q's dtype.
        """


@dataclass(frozen=True)
class MLAProblem(Problem):
    """A spec, and the batch's mode and cache where they are known.

    mode: "extend", "decode" or "draft".
    kv_dtype, page_size: of the cache; None before a cache was seen.
    """

    spec: MLASpec | None = None
    mode: str = "extend"
    kv_dtype: torch.dtype | None = None
    page_size: int | None = None

    @classmethod
    def of(
        cls,
        spec: MLASpec,
        mode: str,
        kv_dtype: torch.dtype | None = None,
        page_size: int | None = None,
    ) -> MLAProblem:
        """What `spec` asks in that mode, of that cache."""
        return cls(
            *(spec.dtype, spec.latent_dim, spec.kv_lora_rank),
            spec=spec,
            mode=mode,
            kv_dtype=kv_dtype,
            page_size=page_size,
        )


@dataclass(frozen=True)
class MLANeeds(Needs):
    """`Needs` with the limits of an MLA kernel; None leaves a limit out.

    latent: (kv_lora_rank, qk_rope_head_dim) that the kernel is built for.
    head_dims: (qk_head_dim, v_head_dim) that an unabsorbed kernel is built for.
    max_dim: of the larger of kv_lora_rank and qk_head_dim.
    heads: numbers of heads of a rank.
    page_sizes: of the cache.
    fp8: whether it reads a cache of float8_e4m3fn.
    modes: those that it has.
    """

    latent: tuple[int, int] | None = None
    head_dims: tuple[int, int] | None = None
    max_dim: int | None = None
    heads: tuple[int, ...] | None = None
    page_sizes: tuple[int, ...] | None = None
    fp8: bool = False
    modes: tuple[str, ...] = ("extend", "decode", "draft")

    def _unmet_problem(self, problem: Problem) -> str | None:
        assert isinstance(problem, MLAProblem) and problem.spec is not None
        return (
            super()._unmet_problem(problem)
            or self._unmet_sizes(problem.spec)
            or self._unmet_cache(problem)
        )

    def _unmet_sizes(self, spec: MLASpec) -> str | None:
        latent = (spec.kv_lora_rank, spec.qk_rope_head_dim)
        if self.latent is not None and latent != self.latent:
            return (
                f"needs kv_lora_rank {self.latent[0]} and qk_rope_head_dim {self.latent[1]}, they "
                f"are {latent[0]} and {latent[1]}"
            )
        heads = (spec.qk_head_dim, spec.v_head_dim)
        if self.head_dims is not None and heads != self.head_dims:
            return (
                f"needs queries and keys of {self.head_dims[0]} and values of {self.head_dims[1]}, "
                f"they are of {heads[0]} and {heads[1]}"
            )
        if self.max_dim is not None and max(latent[0], *heads) > self.max_dim:
            return (
                f"needs kv_lora_rank and head sizes of at most {self.max_dim}, they reach "
                f"{max(latent[0], *heads)}"
            )
        if self.heads is not None and spec.num_heads not in self.heads:
            return f"needs {either(self.heads)} heads on a rank, there are {spec.num_heads}"
        return None

    def _unmet_cache(self, problem: MLAProblem) -> str | None:
        if problem.mode not in self.modes:
            return f"has no mode '{problem.mode}', only {either(self.modes)}"
        size, dtype = problem.page_size, problem.kv_dtype
        if size is not None and self.page_sizes is not None and size not in self.page_sizes:
            return f"needs pages of {either(self.page_sizes)} tokens, they have {size}"
        if dtype is None or dtype is problem.dtype:
            return None
        if dtype is not torch.float8_e4m3fn or not self.fp8:
            also = " or of torch.float8_e4m3fn" if self.fp8 else ""
            return f"needs a latent cache of the queries' {problem.dtype}{also}, it is of {dtype}"
        return None


def either(values: tuple[object, ...]) -> str:
    """(16, 32, 64) -> "16, 32 or 64"."""
    *most, last = (str(value) for value in values)
    return f"{', '.join(most)} or {last}" if most else last
