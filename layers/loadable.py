"""What the weight loader needs of a layer that holds checkpoint tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch

from layers.sharding import ShardId

# Puts a checkpoint tensor where it was found to belong.
Located = Callable[[torch.Tensor], None]


class LoadableLayer(torch.nn.Module, ABC):  # type: ignore[misc]
    """A layer in one of two states: taking checkpoint tensors, or ready for forward."""

    prefix: str

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether post-load has run, so that forward may be called."""

    @property
    @abstractmethod
    def shard_ids(self) -> tuple[ShardId, ...]:
        """Ids of the checkpoint tensors that the layer fuses, in order; (None,) for one alone."""

    @abstractmethod
    def weight_loader_v2(
        self, param: torch.nn.Parameter, loaded_weight: torch.Tensor, shard_id: ShardId = None
    ) -> None:
        """Puts a full checkpoint tensor, or one shard of it, where it belongs on this rank."""

    def locate(self, name: str) -> Located | None:
        """Where a checkpoint tensor goes whose name within the layer is no parameter's.

        Args:
            name: after the layer's prefix, such as "3.gate_proj.weight".

        Returns:
            What loads it; None where the layer knows no such tensor.
        """
        return None

    @abstractmethod
    def missing_weights(self) -> list[str]:
        """Names of the parameters, and shards of them, that no checkpoint tensor has filled."""

    @abstractmethod
    def process_weights_after_loading(self) -> None:
        """Chooses the kernels and brings the weights into their layout."""

    @abstractmethod
    def begin_weight_reload(self) -> None:
        """Returns a ready layer to the loading state, with empty parameters in new memory."""

    def _apply(
        self, fn: Callable[[torch.Tensor], torch.Tensor], *args: Any, **options: Any
    ) -> Self:
        """What torch's `to`, `half`, `cuda` and their like call.

        Raises:
            RuntimeError: the layer is ready, and a parameter would change its dtype or device; its
                kernels were chosen for those, and would read wrong bits or old memory.
        """
        for name, parameter in self.named_parameters(recurse=False) if self.is_ready else ():
            seen = torch.empty(0, dtype=parameter.dtype, device=parameter.device)
            wanted = fn(seen)
            if (wanted.dtype, wanted.device) != (seen.dtype, seen.device):
                raise RuntimeError(
                    f"layer '{self.prefix}' is ready for forward, and its parameter '{name}' would "
                    f"change from {seen.dtype} on {seen.device} to {wanted.dtype} on "
                    f"{wanted.device}. Build the layer with the params_dtype= and device= that it "
                    f"is to have, and load it again."
                )
        converted: Self = super()._apply(fn, *args, **options)
        return converted
