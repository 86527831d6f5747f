"""Parameters of a fused MoE layer: those of a linear layer, with a dimension of experts in front.

Everything about one expert's tensor (shape, shards, the rank's slice, checks, messages) is that of
the linear parameter kinds in `layers.parameter`; this module says which expert it is.
"""

from __future__ import annotations

from typing import Any, Self

import torch

from layers.checkpoint_tensor import check_dense
from layers.copyable import CopyableParameter, restore
from layers.errors import WeightLoadError
from layers.moe.layout import ExpertLayout
from layers.parameter import ModelWeightParameter, ShardedParameter
from layers.sharding import ShardId, Span

# What checkpoints call a tensor that holds an expert's gate and up.
FUSED = "w13"


class ExpertParameter(CopyableParameter):
    """A rank's experts' tensors of one name: (experts of this rank, *shape for one expert).

    Args:
        layout: the layer's experts, and the rank's part of each.
        name: "w13_…" for gate and up, [w1; w3] one under the other, or "w2_…" for down, such as
            "w13_weight_scale".
        kind: the parameter class of one expert's tensor; its shape follows as in a linear layer. A
            `PerTensorScaleParameter` is (experts, 2) of w13 and (experts, 1) of w2.
        dtype, device: of the parameter.
        all_experts: hold the tensors of every expert, also those on other ranks: for scalars of
            which post-load needs the maximum over all.
        interleaved: a tensor that fuses all experts holds gate and up rows in turn, gate first.
        block_bytes: a tensor that fuses all experts may have each row cut into blocks of so many
            bytes, in a last dimension; None where it may not.
        options: row_unit, column_unit and accepted_dtypes of `ShardedParameter`.

    Raises:
        ValueError: a shard or rank boundary cuts through an element.
    """

    def __new__(
        cls,
        layout: ExpertLayout,
        name: str,
        *,
        kind: type[ShardedParameter] = ModelWeightParameter,
        dtype: torch.dtype,
        device: torch.device | str | None = None,
        all_experts: bool = False,
        interleaved: bool = False,
        block_bytes: int | None = None,
        **options: Any,
    ) -> Self:
        """Allocates the rank's tensor; the class describes it."""
        one = kind(layout.of(name), name=name, dtype=dtype, device="meta", **options)
        held = Span.whole(layout.experts.total) if all_experts else layout.experts
        data = torch.empty((held.size, *one.shape), dtype=dtype, device=device)
        parameter: Self = super().__new__(cls, data, requires_grad=False)
        parameter.held = held
        parameter.kind = kind
        parameter.attributes = one.__dict__
        return parameter

    def __init__(
        self,
        layout: ExpertLayout,
        name: str,
        *,
        interleaved: bool = False,
        block_bytes: int | None = None,
        **_: Any,
    ) -> None:
        self.held: Span
        # Of one expert's tensor: its class and attributes. No parameter without memory is kept, as
        # torch cannot pickle it.
        self.kind: type[ShardedParameter]
        self.attributes: dict[str, Any]
        self.full_name: str = self.attributes["full_name"]
        self.interleaved = interleaved
        self.block_bytes = block_bytes
        # Also of other ranks' experts: a second tensor is then refused on every rank.
        self.loaded_shards: dict[int, set[ShardId]] = {e: set() for e in range(self.held.total)}

    @property
    def one(self) -> ShardedParameter:
        """One expert's tensor without memory: its shape, shards and accepted dtypes."""
        shape = self.shape[1:]
        return self._of(torch.empty(shape, dtype=self.dtype, device="meta"), self.full_name)

    def missing(self) -> list[str]:
        """The tensors that no checkpoint has filled yet, with shard and expert."""
        return [
            self._of_expert(expert).label(shard)
            for shard in self.one.linear_layout.shard_ids
            for expert in _range(self.held)
            if shard not in self.loaded_shards[expert]
        ]

    def load(
        self, loaded: torch.Tensor, shard_id: ShardId = None, expert_id: int | None = None
    ) -> None:
        """Copies this rank's slice of a full checkpoint tensor; on an error, nothing of it.

        Another rank's expert is checked and skipped: a wrong tensor is refused on every rank, so
        that none waits for one that stopped.

        Args:
            loaded: as the checkpoint holds it, unsliced, on any device.
            shard_id: "w1" (gate), "w3" (up) or "w2" (down); "w13" or None where the tensor holds
                gate and up.
            expert_id: which expert it is; None where the tensor holds all, in a dimension in front.

        Raises:
            WeightLoadError: unknown expert or shard, loaded before, wrong dtype or shape, NaN in a
                scale, and what else `ShardedParameter.load` refuses.
        """
        check_dense(f"'{self.full_name}'", loaded)
        shard_id = self._plain_shard(shard_id)
        if expert_id is not None:
            self._check_expert(expert_id)
            pieces = [(expert_id, shard_id, loaded)]
        else:
            pieces = self._split(loaded, shard_id)
        ready = []
        for expert, shard, piece in pieces:
            view = self._of_expert(expert)
            check = view.check if view.is_meta and not self.is_meta else view.prepare
            ready.append((view, check(piece, shard)))
        for view, shards in ready:
            if view.is_meta:
                view.loaded_shards.update(shard.id for shard, _ in shards)
            else:
                view.fill(shards)

    def check_own(self) -> None:
        """Refuses a parameter that no longer is as it was declared.

        Raises:
            WeightLoadError: another dtype, or on the meta device.
        """
        self._of(self.data, self.full_name).check_own()

    def _plain_shard(self, shard_id: ShardId) -> ShardId:
        ids = self.one.linear_layout.shard_ids
        if shard_id in (None, FUSED) and len(ids) > 1:
            return None
        return ids[0] if shard_id is None else shard_id

    def _check_expert(self, expert_id: int) -> None:
        total = self.held.total
        is_number = isinstance(expert_id, int) and not isinstance(expert_id, bool)
        if not is_number or not 0 <= expert_id < total:
            raise WeightLoadError(
                f"parameter '{self.full_name}' has no expert {expert_id!r}; the layer's experts "
                f"are 0 to {total - 1}. Check the model's number of experts."
            )

    def _split(
        self, loaded: torch.Tensor, shard_id: ShardId
    ) -> list[tuple[int, ShardId, torch.Tensor]]:
        """The pieces of a tensor that holds all experts."""
        total = self.held.total
        if loaded.dim() == 0 or loaded.shape[0] != total:
            raise WeightLoadError(
                f"fused tensor for '{self.full_name}' has shape {tuple(loaded.shape)}, wanted "
                f"{total} experts in dimension 0. Load single experts with their expert id, or "
                f"check the model's number of experts."
            )
        if loaded.dim() == self.one.dim() + 2 and loaded.shape[-1] == self.block_bytes:
            # As gpt-oss stores packed values: (E, rows, blocks, bytes of a block).
            loaded = loaded.flatten(-2)
        if self.interleaved and shard_id is None:
            self._check_interleaved(loaded)
            first, second = self.one.linear_layout.shard_ids
            parts: list[tuple[ShardId, torch.Tensor]] = [
                (first, loaded[:, 0::2]),
                (second, loaded[:, 1::2]),
            ]
        else:
            parts = [(shard_id, loaded)]
        return [(e, shard, part[e]) for e in range(total) for shard, part in parts]

    def _check_interleaved(self, loaded: torch.Tensor) -> None:
        shapes = [self.one.checkpoint_shape(s) for s in self.one.linear_layout.shards]
        wanted = (self.held.total, sum(shape[0] for shape in shapes), *shapes[0][1:])
        if tuple(loaded.shape) != wanted:
            raise WeightLoadError(
                f"fused tensor for '{self.full_name}' has shape {tuple(loaded.shape)}, wanted "
                f"{wanted}: gate and up rows in turn. Check the model's configuration."
            )

    def _of_expert(self, expert: int) -> ShardedParameter:
        """The expert's tensor as a parameter of its own that shares this one's memory.

        Without memory, on the meta device, where another rank holds the expert.
        """
        is_own = expert in _range(self.held)
        data = self.data[expert - self.held.start] if is_own else self.one.data
        view = self._of(data, f"{self.full_name}[expert {expert}]")
        view.loaded_shards = self.loaded_shards[expert]
        return view

    def _of(self, data: torch.Tensor, name: str) -> ShardedParameter:
        view: ShardedParameter = restore(self.kind, data, self.attributes)
        view.full_name = name
        view.loaded_shards = set()
        return view


def _range(span: Span) -> range:
    return range(span.start, span.start + span.size)
