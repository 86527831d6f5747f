"""What an MLA layer asks of an attention backend, and what a backend can take.

MLA (DeepSeek-V2, arXiv 2405.04434, section 2.1) keeps a latent of `kv_lora_rank` (R) values and a
rotated key of `qk_rope_head_dim` values for each token, which all heads share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from layers.kernels.capability import Arch, Needs, Problem, arch_name, device_arch

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata
    from layers.attention.mla.kv_cache import MLAKVCache

Sizes = tuple[int, int]


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
    row_tiles: at most so many tiles of 64 rows (tokens times heads) has the batch.
    """

    spec: MLASpec | None = None
    mode: str = "extend"
    kv_dtype: torch.dtype | None = None
    page_size: int | None = None
    row_tiles: int = 0

    @classmethod
    def of(
        cls,
        spec: MLASpec,
        mode: str,
        kv_dtype: torch.dtype | None = None,
        page_size: int | None = None,
        row_tiles: int = 0,
    ) -> MLAProblem:
        """What `spec` asks in that mode, of that cache, for so large a batch."""
        return cls(
            *(spec.dtype, spec.latent_dim, spec.kv_lora_rank),
            spec=spec,
            mode=mode,
            kv_dtype=kv_dtype,
            page_size=page_size,
            row_tiles=row_tiles,
        )


@dataclass(frozen=True)
class MLANeeds(Needs):
    """`Needs` with the limits of an MLA kernel; None leaves a limit out.

    latent: (kv_lora_rank, qk_rope_head_dim) that the kernel is built for.
    max_latent: at most these.
    head_dims: (qk_head_dim, v_head_dim) that an unabsorbed kernel is built for.
    max_head_dims: at most these.
    max_heads: of a rank.
    extend_heads: numbers of heads of a rank, in mode "extend".
    max_row_tiles: of a batch; see `MLAProblem`.
    page_sizes: of the cache.
    fp8: whether it reads a cache of float8_e4m3fn; fp8_arch: from which compute capability on.
    modes: those that it has.
    """

    latent: Sizes | None = None
    max_latent: Sizes | None = None
    head_dims: Sizes | None = None
    max_head_dims: Sizes | None = None
    max_heads: int | None = None
    extend_heads: tuple[int, ...] | None = None
    max_row_tiles: int | None = None
    page_sizes: tuple[int, ...] | None = None
    fp8: bool = False
    fp8_arch: Arch | None = None
    modes: tuple[str, ...] = ("extend", "decode", "draft")

    def unmet(self, device: torch.device, problem: Problem) -> str | None:
        """As `Needs.unmet`; some devices read no fp8."""
        reason = super().unmet(device, problem)
        if reason is not None or self.fp8_arch is None or device.type != "cuda":
            return reason
        assert isinstance(problem, MLAProblem)
        if problem.kv_dtype is torch.float8_e4m3fn and device_arch(device) < self.fp8_arch:
            return (
                f"needs CUDA {arch_name(self.fp8_arch)} or newer for a latent cache of "
                f"torch.float8_e4m3fn, '{device}' is {arch_name(device_arch(device))}"
            )
        return None

    def _unmet_problem(self, problem: Problem) -> str | None:
        assert isinstance(problem, MLAProblem) and problem.spec is not None
        return (
            super()._unmet_problem(problem)
            or self._unmet_sizes(problem.spec)
            or self._unmet_batch(problem, problem.spec)
            or self._unmet_cache(problem)
        )

    def _unmet_sizes(self, spec: MLASpec) -> str | None:
        names = ("kv_lora_rank", "qk_rope_head_dim")
        sizes = (spec.kv_lora_rank, spec.qk_rope_head_dim)
        heads = (spec.qk_head_dim, spec.v_head_dim)
        head_names = ("heads of queries and keys", "of values")
        return (
            _exactly(names, sizes, self.latent)
            or _at_most(names, sizes, self.max_latent)
            or _exactly(head_names, heads, self.head_dims)
            or _at_most(head_names, heads, self.max_head_dims)
        )

    def _unmet_batch(self, problem: MLAProblem, spec: MLASpec) -> str | None:
        if problem.mode not in self.modes:
            return f"has no mode '{problem.mode}', only {either(self.modes)}"
        heads = spec.num_heads
        if self.max_heads is not None and heads > self.max_heads:
            return f"needs at most {self.max_heads} heads on a rank, there are {heads}"
        allowed = self.extend_heads
        if problem.mode == "extend" and allowed is not None and heads not in allowed:
            return f"needs {either(allowed)} heads on a rank in mode 'extend', there are {heads}"
        if self.max_row_tiles is not None and problem.row_tiles > self.max_row_tiles:
            return (
                f"needs at most {self.max_row_tiles} tiles of 64 rows (tokens times heads) in a "
                f"batch, there may be {problem.row_tiles}"
            )
        return None

    def _unmet_cache(self, problem: MLAProblem) -> str | None:
        size, dtype = problem.page_size, problem.kv_dtype
        if size is not None and self.page_sizes is not None and size not in self.page_sizes:
            return f"needs pages of {either(self.page_sizes)} tokens, they have {size}"
        if dtype is None or dtype is problem.dtype:
            return None
        if dtype is not torch.float8_e4m3fn or not self.fp8:
            also = " or of torch.float8_e4m3fn" if self.fp8 else ""
            return f"needs a latent cache of the queries' {problem.dtype}{also}, it is of {dtype}"
        return None


def _exactly(names: tuple[str, str], seen: Sizes, wanted: Sizes | None) -> str | None:
    if wanted is None or seen == wanted:
        return None
    return f"needs {names[0]} {wanted[0]} and {names[1]} {wanted[1]}, they are {seen[0]}, {seen[1]}"


def _at_most(names: tuple[str, str], seen: Sizes, limits: Sizes | None) -> str | None:
    if limits is None or (seen[0] <= limits[0] and seen[1] <= limits[1]):
        return None
    return (
        f"needs {names[0]} of at most {limits[0]} and {names[1]} {limits[1]}, they are {seen[0]}, "
        f"{seen[1]}"
    )


def either(values: tuple[object, ...]) -> str:
    """(16, 32, 64) -> "16, 32 or 64"."""
    *most, last = (str(value) for value in values)
    return f"{', '.join(most)} or {last}" if most else last
