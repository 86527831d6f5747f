"""Which tokens of a batch belong to which request, and where each request's state lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch

Integers: TypeAlias = Sequence[int] | torch.Tensor


@dataclass(frozen=True)
class GDNMetadata:
    """Of one batch of B requests with T tokens, one request's after the other's.

    Attributes:
        mode: "extend", any number of tokens a request, or "decode", one.
        state_indices: (B,) int32 or int64, each request's slot in the state.
        cu_seqlens: (B + 1,) int32, where each request's tokens begin; extend only.
        cu_seqlens_cpu: the same on the CPU, for kernels that plan on the host.
        request_of_token: (T,) int32; extend only.
        has_initial_state: (B,) bool, whether the slot holds what came before; a request without
            starts from zeros, whatever its slot holds; extend only.
        query_lens, slots, has_initial: the same on the host; extend only.
    """

    mode: Literal["extend", "decode"]
    state_indices: torch.Tensor
    cu_seqlens: torch.Tensor | None = None
    cu_seqlens_cpu: torch.Tensor | None = None
    request_of_token: torch.Tensor | None = None
    has_initial_state: torch.Tensor | None = None
    query_lens: tuple[int, ...] = ()
    slots: tuple[int, ...] = ()
    has_initial: tuple[bool, ...] = ()

    @classmethod
    def extend(
        cls,
        query_lens: Integers,
        state_indices: Integers,
        has_initial_state: Sequence[bool] | torch.Tensor,
        device: torch.device | str | None = None,
    ) -> GDNMetadata:
        """Of prefill, with or without tokens before these.

        Args:
            query_lens: (B,) tokens of this call, at least 1 a request.
            state_indices: (B,) slots, each in one place at most.
            has_initial_state: (B,) whether the slot holds the state of tokens before these.
            device: of the layer; None is that of the first tensor given, or the CPU.

        Raises:
            ValueError: lengths below 1, slots below 0 or given twice, or lists of other lengths.
        """
        device = _device(device, state_indices, query_lens, has_initial_state)
        lens, slots = _host(query_lens), _host(state_indices)
        initial = tuple(bool(i) for i in _host(has_initial_state))
        if not len(lens) == len(slots) == len(initial) or not lens:
            raise ValueError(
                f"GDNMetadata.extend: {len(lens)} query_lens, {len(slots)} state_indices and "
                f"{len(initial)} has_initial_state, wanted one of each a request."
            )
        if min(lens) < 1:
            raise ValueError(
                f"GDNMetadata.extend: request {lens.index(min(lens))} has {min(lens)} tokens, "
                f"wanted at least 1. Leave out requests that have no tokens in this call."
            )
        _check_slots("extend", slots)
        lengths = torch.tensor(lens)
        request = torch.arange(len(lens)).repeat_interleave(lengths)
        starts = torch.tensor([0, *lengths.cumsum(0)], dtype=torch.int32)
        return cls(
            mode="extend",
            state_indices=torch.tensor(slots, device=device),
            cu_seqlens=starts.to(device),
            cu_seqlens_cpu=starts,
            request_of_token=request.to(device, torch.int32),
            has_initial_state=torch.tensor(initial, device=device),
            query_lens=lens,
            slots=slots,
            has_initial=initial,
        )

    @classmethod
    def decode(
        cls, state_indices: Integers, device: torch.device | str | None = None
    ) -> GDNMetadata:
        """Of one token a request, whose slot holds all that came before.

        Args:
            state_indices: (B,) slots, each in one place at most. A tensor of int32 or int64 on the
                layer's device is kept, not copied: a captured CUDA graph reads it at each replay.
                Nobody looks whether a GPU's are slots of the state. A row that only pads a batch
                takes a spare slot of its own, whose state is of no use then.
            device: as for `extend`.

        Raises:
            ValueError: slots below 0 or given twice, where they lie on the host, or another dtype.
        """
        device = _device(device, state_indices)
        if not isinstance(state_indices, torch.Tensor):
            _check_slots("decode", _host(state_indices))
            state_indices = torch.tensor(list(state_indices), dtype=torch.int64)
        elif state_indices.dtype not in (torch.int32, torch.int64) or state_indices.dim() != 1:
            raise ValueError(
                f"GDNMetadata.decode: state_indices is {tuple(state_indices.shape)} "
                f"{state_indices.dtype}, wanted (requests,) of torch.int32 or torch.int64."
            )
        elif not state_indices.is_cuda:
            _check_slots("decode", _host(state_indices))
        return cls(mode="decode", state_indices=state_indices.to(device))

    @property
    def num_requests(self) -> int:
        """B."""
        return int(self.state_indices.shape[0])

    @property
    def num_tokens(self) -> int:
        """T."""
        return sum(self.query_lens) if self.mode == "extend" else self.num_requests


def _host(values: Integers | Sequence[bool]) -> tuple[int, ...]:
    return tuple(values.tolist()) if isinstance(values, torch.Tensor) else tuple(values)


def _device(device: torch.device | str | None, *values: object) -> torch.device:
    if device is not None:
        return torch.device(device)
    on = [value.device for value in values if isinstance(value, torch.Tensor)]
    return on[0] if on else torch.device("cpu")


def _check_slots(mode: str, slots: tuple[int, ...]) -> None:
    wrong = [slot for slot in slots if slot < 0 or slots.count(slot) > 1]
    if wrong:
        raise ValueError(
            f"GDNMetadata.{mode}: state_indices has {wrong[0]}, wanted slots of at least 0, each "
            f"for one request. Give each request, and each padding row, a slot of its own."
        )
