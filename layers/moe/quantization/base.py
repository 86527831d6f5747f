"""What a quantisation method of a fused MoE layer is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from layers.moe.topk import TopKOutput
from layers.quantization.base import QuantizationConfig

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE

Run = Callable[["FusedMoE", torch.Tensor, TopKOutput], torch.Tensor]


class MoEMethodBase(ABC):
    """Stores a MoE layer's expert weights and multiplies by them; each layer has its own object.

    Attributes:
        backend: the runner asked for, by name; None chooses by capability.
        backends: names of the backends chosen by post-load, by operation.
        run: set by post-load where one kernel does everything after the choice of experts: (layer,
            x (T, H), topk) -> (T, H), unreduced. None where the method works in stages.
    """

    def __init__(self, backend: str | None = None) -> None:
        self.backend = backend
        self.backends: dict[str, str] = {}
        self.run: Run | None = None

    @classmethod
    def from_config(cls, config: QuantizationConfig, backend: str | None) -> MoEMethodBase:
        """A new method for a layer that `config` quantises.

        Raises:
            ValueError: the config asks for what the method does not do.
        """
        return cls(backend)

    @abstractmethod
    def create_weights(
        self, layer: FusedMoE, params_dtype: torch.dtype, device: torch.device
    ) -> None:
        """Registers on `layer` an `ExpertParameter` for each tensor that the checkpoint holds.

        Called again, after the old parameters were removed, when weights are reloaded.

        Raises:
            ValueError: a layout that the format cannot hold.
        """

    @abstractmethod
    def process_weights_after_loading(self, layer: FusedMoE) -> None:
        """Chooses the runner and brings what was loaded into its layout.

        A parameter whose layout changes is replaced, so that no second copy stays.

        Raises:
            BackendUnavailable: the runner asked for cannot run here.
        """

    @abstractmethod
    def apply(self, layer: FusedMoE, x: torch.Tensor, topk: TopKOutput) -> torch.Tensor:
        """x (T, H) of params_dtype, T > 0 -> this rank's part of the output, (T, H), unreduced."""


def optional(layer: torch.nn.Module, name: str) -> Any:
    """The parameter of that name, or None if the layer has none."""
    return layer._parameters.get(name)
