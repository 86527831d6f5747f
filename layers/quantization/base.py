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

    def dequantised_weight(self, layer: torch.nn.Module) -> torch.Tensor:
        """The values that the stored weight stands for, of a layer that post-load has readied.

        For layers that multiply by a part of the weight themselves, such as MLA's absorbed path.

        Returns:
            (N, K) float32 in new memory: each code times its scale, rounded once.

        Raises:
            ValueError: the method, or the layout that post-load brought the weight into, has none.
        """
        raise ValueError(
            f"layer '{getattr(layer, 'prefix', '')}': {type(self).__name__} does not give back its "
            f"weight's values, which this layer needs apart from its matmul. Name the layer among "
            f"the ignored_layers of the quantisation config, and store its weight unquantised."
        )


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
        self.packed_modules_mapping = _packed(packed_modules_mapping)
        self.backend = check_backend(backend)

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


def check_config(prefix: str, config: QuantizationConfig | None) -> None:
    """Refuses what a user may take for a config: a config.json's object, or the method's name.

    Raises:
        ValueError: naming the layer and what was given.
    """
    if config is not None and not isinstance(config, QuantizationConfig):
        raise ValueError(
            f"layer '{prefix}': quant_config is {config!r}, wanted a QuantizationConfig or None. "
            f"Make it with get_quantization_config(NAME).from_config(...), of "
            f"layers.quantization.registry."
        )


def keys_of(method: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config itself, if it has keys.

    Raises:
        ValueError: it is no object.
    """
    if not isinstance(config, Mapping):
        raise ValueError(
            f"{method}: the quantisation config is {config!r}, wanted the object that config.json "
            f'has under "quantization_config".'
        )
    return config


def flattened(method: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a config.json's `quantization_config` or of a whole hf_quant_config.json.

    The latter (NVIDIA ModelOpt) keeps them under "quantization".

    Raises:
        ValueError: no object, or a key that is there twice with different values.
    """
    nested = keys_of(method, config).get("quantization")
    if nested is None:
        return dict(config)
    if not isinstance(nested, Mapping):
        raise ValueError(
            f"{method}: quantization is {nested!r}, wanted the object that hf_quant_config.json "
            f"has under that key."
        )
    for key, value in nested.items():
        if key in config and config[key] != value:
            raise ValueError(
                f"{method}: {key} is {config[key]!r}, and {value!r} under 'quantization', wanted "
                f"it once. Correct the quantisation config."
            )
    return {**config, **nested}


def check_values(method: str, config: Mapping[str, Any], **possible: Sequence[Any]) -> None:
    """Refuses a config whose keys contradict what the method is.

    Args:
        method: its name, for the message.
        config: as config.json has it; a key that is missing or null is passed over.
        possible: for each key the values that mean this method.

    Raises:
        ValueError: no object, or another value.
    """
    for key, values in possible.items():
        value = keys_of(method, config).get(key)
        if value is not None and not any(value == v and type(value) is type(v) for v in values):
            wanted = " or ".join([*map(repr, values), "none"])
            raise ValueError(
                f"{method}: {key} is {value!r}, wanted {wanted}. Correct the quantisation config, "
                f"or use the quant_method that has it."
            )


def common_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `QuantizationConfig` that every config.json may hold.

    Ignored layers are called `ignored_layers`, `modules_to_not_convert`, `ignore` or
    `exclude_modules` in the field.

    Raises:
        ValueError: one of them is no list of names.
    """
    ignored: list[str] = []
    for key in ("ignored_layers", "modules_to_not_convert", "ignore", "exclude_modules"):
        value = config.get(key)
        ignored += [] if value is None else _names(key, value)
    return {
        "ignored_layers": ignored,
        "packed_modules_mapping": config.get("packed_modules_mapping"),
    }


def _packed(mapping: Any) -> dict[str, Sequence[str]]:
    if not isinstance(mapping, Mapping | None):
        raise ValueError(
            f"packed_modules_mapping is {mapping!r}, wanted an object of lists, such as "
            f"{{'qkv_proj': ['q_proj', 'k_proj', 'v_proj']}}. Correct the quantisation config."
        )
    return {
        fused: tuple(_names(f"packed_modules_mapping['{fused}']", parts))
        for fused, parts in (mapping or {}).items()
    }


def check_backend(name: Any) -> str | None:
    """A backend's name as it was given; whether it exists is asked after loading.

    Raises:
        ValueError: no string, or an empty one.
    """
    if name is not None and (not isinstance(name, str) or not name):
        raise ValueError(
            f"backend is {name!r}, wanted a backend's name, such as 'triton', or None to choose by "
            f"capability."
        )
    return name


def _names(key: str, value: Any) -> Sequence[str]:
    # A lone string is a sequence too, of its letters.
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not all(isinstance(name, str) and name not in ("", "re:") for name in value)
    ):
        raise ValueError(
            f"{key} is {value!r}, wanted a list of layer names, such as ['lm_head']. Correct the "
            f"quantisation config."
        )
    return value
