"""Which backend attends for an MLA layer, by path, mode and cache."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from layers.attention.metadata import MODES, AttentionMetadata
from layers.attention.mla.kv_cache import MLAKVCache
from layers.kernels.capability import BackendUnavailable, select_backend
from layers.kernels.mla.absorbed import MLA_ABSORBED
from layers.kernels.mla.problem import AbsorbedBackend, MLAProblem, MLASpec, UnabsorbedBackend
from layers.kernels.mla.unabsorbed import MLA_UNABSORBED
from layers.quantization.base import check_backend

UNABSORBED = "unabsorbed"
USES = (*MODES, UNABSORBED)
# Batches of fewer tiles of 64 rows are within every kernel's limit, and share a choice.
FEW_TILES = 8192

Requested = str | Mapping[str, str] | None


class ChosenMLA:
    """A layer's attention, each use of it by the backend that was chosen.

    Uses are the modes of the absorbed path, "extend", "decode" and "draft", and "unabsorbed". What
    a cache is made of is known at the first forward that brings one, so the choice is made again
    for each dtype and page size of a cache, before any kernel runs.

    Args:
        prefix: the layer's name, for messages.
        spec: of the layer.
        device: where it runs.
        requested: a backend's name by use; a use that is missing is chosen by capability.
        all_uses: whether one name was asked for everything. The unabsorbed path is then left out
            where that backend has none; prompts take the absorbed one.

    Attributes:
        backends: the backend of each use that has one; of the cache seen last.
        unabsorbed: the unabsorbed path's backend, or None.

    Raises:
        BackendUnavailable: a backend was asked for that has no such use, or no use at all.
    """

    def __init__(
        self,
        prefix: str,
        spec: MLASpec,
        device: torch.device,
        requested: Mapping[str, str],
        *,
        all_uses: bool,
    ) -> None:
        self.prefix = prefix
        self.spec = spec
        self.device = device
        self.requested = dict(requested)
        self.backends: dict[str, str] = {}
        self._loaded: dict[str, AbsorbedBackend] = {}
        self._chosen: dict[tuple[str, torch.dtype, int, int], str] = {}
        refusals = {m: r for m in MODES if (r := self._try(m)) is not None}
        for mode, refusal in refusals.items():
            if len(refusals) == len(MODES) or (mode in self.requested and not all_uses):
                raise refusal
        self.unabsorbed = self._choose_unabsorbed(is_demanded=not all_uses)

    def choose(self, cache: MLAKVCache, metadata: AttentionMetadata) -> AbsorbedBackend:
        """The absorbed path's backend for a cache and a batch.

        Raises:
            BackendUnavailable: none can run, or the one asked for cannot.
        """
        tiles = metadata.num_tokens * self.spec.num_heads // 64 + metadata.num_requests
        large = tiles if tiles > FEW_TILES else 0
        key = (metadata.mode, cache.dtype, cache.page_size, large)
        name = self._chosen.get(key)
        if name is None:
            name = self._chosen[key] = self._select(*key)
        self.backends[metadata.mode] = name
        return self._loaded[name]

    def __call__(
        self, q: torch.Tensor, cache: MLAKVCache, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """As `AbsorbedBackend.__call__`."""
        return self.choose(cache, metadata)(q, cache, metadata)

    def _select(
        self,
        mode: str,
        kv_dtype: torch.dtype | None = None,
        page_size: int | None = None,
        row_tiles: int = 0,
    ) -> str:
        problem = MLAProblem.of(self.spec, mode, kv_dtype, page_size, row_tiles)
        try:
            backend = select_backend(MLA_ABSORBED, self.device, problem, self.requested.get(mode))
        except BackendUnavailable as error:
            raise BackendUnavailable(f"layer '{self.prefix}', mode '{mode}': {error}") from error
        self.backends[mode] = backend.name
        if backend.name not in self._loaded:
            self._loaded[backend.name] = backend.load()(self.spec)
        return backend.name

    def _try(self, mode: str) -> BackendUnavailable | None:
        try:
            self._select(mode)
        except BackendUnavailable as error:
            return error
        return None

    def _choose_unabsorbed(self, *, is_demanded: bool) -> UnabsorbedBackend | None:
        name = self.requested.get(UNABSORBED)
        problem = MLAProblem.of(self.spec, "extend")
        try:
            backend = select_backend(MLA_UNABSORBED, self.device, problem, name)
        except BackendUnavailable as error:
            if name is not None and is_demanded:
                where = f"layer '{self.prefix}', {UNABSORBED}"
                raise BackendUnavailable(f"{where}: {error}") from error
            return None
        self.backends[UNABSORBED] = backend.name
        chosen: UnabsorbedBackend = backend.load()(self.spec)
        return chosen


def requested_by_use(prefix: str, backend: Requested) -> dict[str, str]:
    """A layer's `backend` argument -> a name for each use that has one.

    Raises:
        ValueError: neither a name nor a dict of names by use.
    """
    if backend is None or backend == "auto":
        return {}
    if not isinstance(backend, Mapping):
        name = check_backend(backend)
        return {use: name for use in USES if name is not None}
    unknown = [use for use in backend if use not in USES]
    if unknown:
        raise ValueError(
            f"layer '{prefix}': backend names the use {unknown[0]!r}, wanted some of "
            f"{', '.join(USES)}."
        )
    names = {use: check_backend(name) for use, name in backend.items()}
    return {use: name for use, name in names.items() if name not in (None, "auto")}
