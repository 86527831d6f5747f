"""NVFP4 checkpoints of NVIDIA ModelOpt: what their config says, and which layers it means.

The tensors and the arithmetic are those of `layers.quantization.nvfp4_linear`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch

from layers.kernels.fp4.scales import NVFP4
from layers.quantization.base import (
    LinearMethodBase,
    QuantizationConfig,
    check_values,
    common_options,
    flattened,
)
from layers.quantization.nvfp4_linear import Nvfp4LinearMethod
from layers.quantization.prefix import is_layer_ignored
from layers.quantization.registry import register

ALGORITHM = "NVFP4"


@register("modelopt")
@register("modelopt_fp4")
class ModelOptFp4Config(QuantizationConfig):
    """Picks `Nvfp4LinearMethod` for every linear layer that is not ignored.

    Args:
        group_size: columns that share a block scale; only 16 is supported.
        options: see `QuantizationConfig`.

    Raises:
        ValueError: another group size.
    """

    def __init__(self, *, group_size: int = NVFP4.group, **options: Any) -> None:
        if group_size != NVFP4.group or not isinstance(group_size, int):
            raise ValueError(
                f"modelopt_fp4: group_size is {group_size!r}, wanted {NVFP4.group}, the block of "
                f"NVFP4. Quantise the model again with blocks of that size."
            )
        super().__init__(**options)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, backend: str | None = None) -> Self:
        """Reads the `quantization_config` of a config.json, or a whole hf_quant_config.json.

        The latter keeps the same keys under "quantization". Read are `quant_algo`, which must be
        NVFP4 where the method is called "modelopt"; `group_size`, by itself or within
        `config_groups`; and ignored layers, as in `common_options`. Keys about the KV cache
        (`kv_cache_quant_algo`, `kv_cache_scheme`) are passed over: no linear layer reads them.

        Raises:
            ValueError: another algorithm or group size, or a list that is none.
        """
        keys = flattened("modelopt_fp4", config)
        _check_algorithm(keys)
        check_values("modelopt_fp4", keys, activation_scheme=("static",), weight_block_size=())
        sizes = _group_sizes(keys)
        wrong = [size for size in sizes if size != NVFP4.group or not isinstance(size, int)]
        return cls(
            group_size=wrong[0] if wrong else NVFP4.group, backend=backend, **common_options(keys)
        )

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> LinearMethodBase | None:
        """A new method object for the layer; None if the checkpoint leaves it unquantised."""
        if is_layer_ignored(prefix, self.ignored_layers, self.packed_modules_mapping):
            return None
        return Nvfp4LinearMethod(self.backend)


def _check_algorithm(keys: Mapping[str, Any]) -> None:
    # "modelopt_fp4" says it all; "modelopt" stands for several algorithms.
    implied = ALGORITHM if keys.get("quant_method") == "modelopt_fp4" else None
    algorithm = keys.get("quant_algo", implied)
    if algorithm != ALGORITHM:
        raise ValueError(
            f"modelopt: quant_algo is {algorithm!r}, wanted '{ALGORITHM}', the one that is "
            f"supported under this name. For an FP8 checkpoint of ModelOpt pass quant_method "
            f"'modelopt_fp8' (layers.quantization.modelopt_fp8); for another format, the "
            f"quant_method that docs/methods.md lists."
        )


def _group_sizes(keys: Mapping[str, Any]) -> list[Any]:
    """Every group size that the config gives, of weights and of activations."""
    sizes = [keys["group_size"]] if keys.get("group_size") is not None else []
    groups = {} if keys.get("config_groups") is None else keys["config_groups"]
    if not isinstance(groups, Mapping) or not all(isinstance(g, Mapping) for g in groups.values()):
        raise ValueError(
            f"modelopt_fp4: config_groups is {groups!r}, wanted an object of objects, such as "
            f"{{'group_0': {{'weights': {{'group_size': 16}}}}}}."
        )
    for group in groups.values():
        for part in ("weights", "input_activations"):
            scheme = group.get(part)
            if scheme is None:
                continue
            if not isinstance(scheme, Mapping):
                raise ValueError(
                    f"modelopt_fp4: {part} of config_groups is {scheme!r}, wanted an object, such "
                    f"as {{'num_bits': 4, 'type': 'float', 'group_size': 16}}."
                )
            check_values("modelopt_fp4", scheme, num_bits=(4,), type=("float",))
            sizes += [] if scheme.get("group_size") is None else [scheme["group_size"]]
    return sizes
