"""Which backend attends for a layer, by mode and cache."""

from __future__ import annotations

import torch

from layers.attention.kv_cache import PagedKVCache
from layers.attention.metadata import MODES, AttentionMetadata
from layers.kernels.attention.attend import operation_for
from layers.kernels.attention.problem import AttentionBackend, AttentionProblem, AttentionSpec
from layers.kernels.capability import BackendUnavailable, select_backend


class ChosenAttention:
    """A layer's attention, each mode by the backend that was chosen for it.

    What a cache is made of is known at the first forward that brings one, so the choice is made
    again for each dtype and page size of a cache, before any kernel runs.

    Args:
        prefix: the layer's name, for messages.
        spec: of the layer.
        device: where it runs.
        requested: a backend's name; None chooses by capability.

    Attributes:
        backends: the backend of each mode that has one; of the cache seen last.

    Raises:
        BackendUnavailable: the backend asked for can run in no mode.
    """

    def __init__(
        self, prefix: str, spec: AttentionSpec, device: torch.device, requested: str | None
    ) -> None:
        self.prefix = prefix
        self.spec = spec
        self.device = device
        self.requested = requested
        self.backends: dict[str, str] = {}
        self._loaded: dict[str, AttentionBackend] = {}
        self._chosen: dict[tuple[str, torch.dtype, int], str] = {}
        refusals = [refusal for mode in MODES if (refusal := self._try(mode)) is not None]
        if len(refusals) == len(MODES):
            raise refusals[0]

    def choose(self, cache: PagedKVCache, metadata: AttentionMetadata) -> AttentionBackend:
        """The backend for a cache and a batch.

        Raises:
            BackendUnavailable: none can run, or the one asked for cannot.
        """
        key = (metadata.mode, cache.dtype, cache.page_size)
        name = self._chosen.get(key)
        if name is None:
            name = self._chosen[key] = self._select(*key)
        self.backends[metadata.mode] = name
        return self._loaded[name]

    def __call__(
        self,
        q: torch.Tensor,
        cache: PagedKVCache,
        metadata: AttentionMetadata,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """As `AttentionBackend.__call__`."""
        return self.choose(cache, metadata)(q, cache, metadata, sinks)

    def _select(self, mode: str, kv_dtype: torch.dtype | None, page_size: int | None) -> str:
        problem = AttentionProblem.of(self.spec, mode, kv_dtype, page_size)
        try:
            backend = select_backend(operation_for(problem), self.device, problem, self.requested)
        except BackendUnavailable as error:
            raise BackendUnavailable(f"layer '{self.prefix}', mode '{mode}': {error}") from error
        self.backends[mode] = backend.name
        if backend.name not in self._loaded:
            self._loaded[backend.name] = backend.load()(self.spec)
        return backend.name

    def _try(self, mode: str) -> BackendUnavailable | None:
        try:
            self._select(mode, None, None)
        except BackendUnavailable as error:
            return error
        return None
