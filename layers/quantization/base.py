"""What a quantisation method is: a config that picks a method for a layer, and the method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch

from layers.sharding import LinearLayout


class LinearMethodBase(ABC):
    """Stores a linear layer's weight and multiplies by it. Each layer has an object of its own."""

    @abstractmethod
    def create_weights(
        self,
        layer: torch.nn.Module,
        layout: LinearLayout,
        params_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Registers on `layer` a parameter for each tensor that the checkpoint holds.

        Called again, after the old parameters were removed, when weights are reloaded.

        Raises:
            ValueError: a layout that the format cannot hold.
        """

    @abstractmethod
    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Chooses backends and brings what was loaded into their layout: folds, pads, swizzles.

        A parameter whose layout changes is replaced, so that no second copy stays.

        Raises:
            BackendUnavailable: the backend asked for cannot run here.
        """

    @abstractmethod
    def apply(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """x (M, K) of params_dtype, M > 0, and bias (N,) -> (M, N) of params_dtype."""


class QuantizationConfig(ABC):
    """A checkpoint's quantisation, as its config.json describes it.

    Attributes:
        ignored_layers: entries naming layers left unquantised; see `layers.quantization.prefix`.
        packed_modules_mapping: which checkpoint modules each fused layer holds; a model sets it.
        backend: the matmul's backend, by name; None chooses by capability. It comes from whoever
            runs the model: a checkpoint does not choose kernels.
    """

    def __init__(
        self,
        *,
        ignored_layers: Sequence[str] = (),
        packed_modules_mapping: Mapping[str, Sequence[str]] | None = None,
        backend: str | None = None,
    ) -> None:
        self.ignored_layers = tuple(_names("ignored_layers", ignored_layers))
        self.packed_modules_mapping = dict(packed_modules_mapping or {})
        self.backend = backend

    @classmethod
    @abstractmethod
    def from_config(cls, config: Mapping[str, Any], *, backend: str | None = None) -> Self:
        """Reads the `quantization_config` of a checkpoint's config.json; `backend` as above.

        Raises:
            ValueError: a value that the method does not support.
        """

    @abstractmethod
    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> LinearMethodBase | None:
        """The method for the layer of that name; None leaves it unquantised."""


def common_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `QuantizationConfig` that every config.json may hold.

    Ignored layers are called `ignored_layers`, `modules_to_not_convert`, `ignore` or
    `exclude_modules` in the field.

    Raises:
        ValueError: one of them is no list of names.
    """
    ignored: list[str] = []
    for key in ("ignored_layers", "modules_to_not_convert", "ignore", "exclude_modules"):
        ignored += _names(key, config.get(key) or [])
    return {
        "ignored_layers": ignored,
        "packed_modules_mapping": config.get("packed_modules_mapping"),
    }


def _names(key: str, value: Any) -> Sequence[str]:
    # A lone string is a sequence too, of its letters.
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not all(isinstance(name, str) for name in value)
    ):
        raise ValueError(
            f"{key} is {value!r}, wanted a list of layer names, such as ['lm_head']. Correct the "
            f"quantisation config."
        )
    return value
