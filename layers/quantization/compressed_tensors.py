"""compressed-tensors checkpoints (llm-compressor) whose linear layers are fp8 on both sides.

Supported is one group of targets "Linear" with e4m3 weights of a scale a channel or a tensor, and
e4m3 activations, dynamic by token or static by tensor. Their tensors are called `weight`,
`weight_scale` and `input_scale`, as the methods of `layers.quantization.fp8_linear` have them.
Whatever else the format can say is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch

from layers.quantization.base import (
    LinearMethodBase,
    QuantizationConfig,
    common_options,
    keys_of,
)
from layers.quantization.fp8_linear import Fp8ChannelLinearMethod, Fp8TensorLinearMethod
from layers.quantization.prefix import is_layer_ignored
from layers.quantization.registry import register

WANTED = (
    "wanted one group of targets ['Linear'] with symmetric 8-bit float weights of strategy "
    "'channel' or 'tensor', and such activations, dynamic of strategy 'token', or static of "
    "strategy 'tensor' beside weights of that strategy; compressed, without groups, transforms or "
    "sparsity"
)


@register("compressed-tensors")
class CompressedTensorsConfig(QuantizationConfig):
    """Picks an fp8 method for every linear layer that is not ignored.

    Args:
        strategy: of the weight's scales, "channel" or "tensor".
        static: activations have a scale in the checkpoint.
        options: see `QuantizationConfig`.
    """

    def __init__(self, *, strategy: str, static: bool, **options: Any) -> None:
        super().__init__(**options)
        self.strategy = strategy
        self.static = static

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, backend: str | None = None) -> Self:
        """Reads `config_groups`, `format`, and the keys of `common_options`.

        Raises:
            ValueError: something that is not supported.
        """
        groups = keys_of("compressed-tensors", config).get("config_groups") or {}
        if not isinstance(groups, Mapping) or len(groups) != 1:
            raise _unsupported("config_groups", groups)
        (group,) = groups.values()
        if not isinstance(group, Mapping):
            raise _unsupported("config_groups", groups)
        if group.get("targets") != ["Linear"]:
            raise _unsupported("targets", group.get("targets"))
        for part in (config, group):
            if part.get("format") not in (None, "float-quantized"):
                raise _unsupported("format", part["format"])
        _check_absent(config, group)
        weights = _float8("weights", group.get("weights"))
        inputs = _float8("input_activations", group.get("input_activations"))
        strategy, dynamic = str(weights.get("strategy")), inputs.get("dynamic", False)
        static = dynamic is False
        if dynamic not in (True, False) or (strategy, static, inputs.get("strategy")) not in (
            ("channel", False, "token"),
            ("tensor", False, "token"),
            ("tensor", True, "tensor"),
        ):
            raise _unsupported("config_groups", groups)
        options = common_options(config)
        return cls(strategy=strategy, static=static, backend=backend, **options)

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> LinearMethodBase | None:
        """A new method object for the layer; None if the checkpoint leaves it unquantised."""
        if is_layer_ignored(prefix, self.ignored_layers, self.packed_modules_mapping):
            return None
        if self.strategy == "channel":
            return Fp8ChannelLinearMethod(self.backend)
        return Fp8TensorLinearMethod(self.backend, static=self.static)


def _float8(key: str, scheme: Any) -> Mapping[str, Any]:
    """The scheme of weights or activations, if it is symmetric fp8.

    Raises:
        ValueError: it is not.
    """
    if (
        isinstance(scheme, Mapping)
        and (scheme.get("num_bits"), scheme.get("type")) == (8, "float")
        and scheme.get("symmetric", True) is True
        and all(scheme.get(k) is None for k in ("group_size", "block_structure", "actorder"))
        and not (key == "weights" and scheme.get("dynamic"))
    ):
        return scheme
    raise _unsupported(key, scheme)


def _check_absent(config: Mapping[str, Any], group: Mapping[str, Any]) -> None:
    """Refuses what would change the layer's arithmetic or the form of its tensors.

    Raises:
        ValueError: quantised outputs, transforms, sparse weights, or weights not yet quantised.
    """
    if group.get("output_activations") is not None:
        raise _unsupported("output_activations", group["output_activations"])
    if config.get("transform_config"):
        raise _unsupported("transform_config", config["transform_config"])
    sparsity = config.get("sparsity_config") or {"format": "dense"}
    if not isinstance(sparsity, Mapping) or sparsity.get("format") != "dense":
        raise _unsupported("sparsity_config", sparsity)
    if config.get("quantization_status") not in (None, "compressed"):
        raise _unsupported("quantization_status", config["quantization_status"])


def _unsupported(key: str, value: Any) -> ValueError:
    return ValueError(
        f"compressed-tensors: {key} is {value!r}, {WANTED}. Quantise the model again by such a "
        f"recipe (llm-compressor's FP8 or FP8_DYNAMIC)."
    )
