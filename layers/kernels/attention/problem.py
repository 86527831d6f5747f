"""What a layer asks of an attention backend, and what a backend can take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from layers.kernels.capability import Arch, Needs, Problem, arch_name, device_arch

if TYPE_CHECKING:
    from layers.attention.kv_cache import PagedKVCache
    from layers.attention.metadata import AttentionMetadata


@dataclass(frozen=True)
class AttentionSpec:
    """The fixed part of a layer's attention, on this rank.

    dtype: of queries and outputs.
    scaling: of q·k, before the soft cap.
    sliding_window: keys that a query sees, its own included; None is all before it.
    logit_soft_cap: cap · tanh(logit / cap); 0 is none.
    has_sinks: whether each query head has one more logit, of a key without value.
    """

    dtype: torch.dtype
    num_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    scaling: float
    sliding_window: int | None = None
    logit_soft_cap: float = 0.0
    has_sinks: bool = False

    @property
    def group(self) -> int:
        """Query heads that share a key-value head: head h reads key-value head h // group."""
        return self.num_heads // self.num_kv_heads


class AttentionBackend(ABC):
    """One layer's attention by one backend."""

    def __init__(self, spec: AttentionSpec) -> None:
        self.spec = spec

    def plan(self, cache: PagedKVCache, metadata: AttentionMetadata) -> None:  # noqa: B027
        """Works out on the host what the kernel needs, if anything; again does nothing."""

    @abstractmethod
    def __call__(
        self,
        q: torch.Tensor,
        cache: PagedKVCache,
        metadata: AttentionMetadata,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """Attends to the keys in the cache, this call's among them.

        Args:
            q: (T, num_heads, head_dim) of the spec's dtype.
            cache: with this call's keys and values written.
            metadata: of the batch.
            sinks: (num_heads,) float32, or None.

        Returns:
            (T, num_heads, v_head_dim) of q's dtype.
        """


@dataclass(frozen=True)
class AttentionProblem(Problem):
    """A spec, and the batch's mode and cache where they are known.

    `dtype`, `k` and `n` are the spec's dtype, head_dim and v_head_dim.

    mode: "extend", "decode" or "draft".
    kv_dtype, page_size: of the cache; None before a cache was seen.
    """

    spec: AttentionSpec | None = None
    mode: str = "extend"
    kv_dtype: torch.dtype | None = None
    page_size: int | None = None

    @classmethod
    def of(
        cls,
        spec: AttentionSpec,
        mode: str,
        kv_dtype: torch.dtype | None = None,
        page_size: int | None = None,
    ) -> AttentionProblem:
        """What `spec` asks in that mode, of that cache."""
        return cls(
            *(spec.dtype, spec.head_dim, spec.v_head_dim),
            spec=spec,
            mode=mode,
            kv_dtype=kv_dtype,
            page_size=page_size,
        )


@dataclass(frozen=True)
class AttentionNeeds(Needs):
    """`Needs` with the limits of an attention kernel; None leaves a limit out.

    head_dims: that keys and values may have.
    max_head_dim: of the larger of the two.
    same_head_dims: values as wide as keys.
    fp8_min_arch: that reads a cache of float8_e4m3fn.
    sinks_modes: those that take sinks.
    sinks_with_soft_cap: whether they take a soft cap beside them.
    """

    head_dims: tuple[int, ...] | None = None
    max_head_dim: int | None = None
    same_head_dims: bool = False
    fp8_min_arch: Arch | None = None
    sinks_modes: tuple[str, ...] = ("extend", "decode", "draft")
    sinks_with_soft_cap: bool = True

    def unmet(self, device: torch.device, problem: Problem) -> str | None:
        """Why the backend cannot run, or None if it can."""
        return super().unmet(device, problem) or self._unmet_fp8(device, problem)

    def _unmet_fp8(self, device: torch.device, problem: Problem) -> str | None:
        assert isinstance(problem, AttentionProblem)
        if self.fp8_min_arch is None or problem.kv_dtype is not torch.float8_e4m3fn:
            return None
        arch = device_arch(device)
        if arch >= self.fp8_min_arch:
            return None
        return (
            f"needs CUDA {arch_name(self.fp8_min_arch)} or newer for a KV cache of "
            f"{problem.kv_dtype}, '{device}' is {arch_name(arch)}"
        )

    def _unmet_problem(self, problem: Problem) -> str | None:
        assert isinstance(problem, AttentionProblem) and problem.spec is not None
        return (
            super()._unmet_problem(problem)
            or self._unmet_heads(problem.spec)
            or self._unmet_cache(problem)
            or self._unmet_sinks(problem)
        )

    def _unmet_heads(self, spec: AttentionSpec) -> str | None:
        for name, size in (("head_dim", spec.head_dim), ("v_head_dim", spec.v_head_dim)):
            if self.head_dims is not None and size not in self.head_dims:
                return f"needs {name} of {_either(self.head_dims)}, it is {size}"
            if self.max_head_dim is not None and size > self.max_head_dim:
                return f"needs {name} of at most {self.max_head_dim}, it is {size}"
        if self.same_head_dims and spec.head_dim != spec.v_head_dim:
            return f"needs v_head_dim equal to head_dim {spec.head_dim}, it is {spec.v_head_dim}"
        return None

    def _unmet_cache(self, problem: AttentionProblem) -> str | None:
        dtype = problem.kv_dtype
        if dtype in (None, problem.dtype, torch.float8_e4m3fn):
            return None
        return (
            f"needs a KV cache of the queries' {problem.dtype}, or of torch.float8_e4m3fn, it is "
            f"of {dtype}"
        )

    def _unmet_sinks(self, problem: AttentionProblem) -> str | None:
        spec = problem.spec
        if spec is None or not spec.has_sinks:
            return None
        if problem.mode not in self.sinks_modes:
            return f"has no sinks in mode '{problem.mode}', only in {_either(self.sinks_modes)}"
        if spec.logit_soft_cap and not self.sinks_with_soft_cap:
            return f"has no sinks with a soft cap, which is {spec.logit_soft_cap:g}"
        return None


def _either(values: tuple[object, ...]) -> str:
    *most, last = (str(value) for value in values)
    return f"{', '.join(most)} or {last}" if most else last
