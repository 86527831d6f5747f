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

from layers.quantization.base import LinearMethodBase, QuantizationConfig, common_options
from layers.quantization.fp8_linear import Fp8ChannelLinearMethod, Fp8TensorLinearMethod
from layers.quantization.prefix import is_layer_ignored
from layers.quantization.registry import register

WANTED = (
    "wanted one group of targets ['Linear'] with symmetric 8-bit float weights of strategy "
    "'channel' or 'tensor', and such activations, dynamic of strategy 'token', or static of "
    "strategy 'tensor' beside weights of that strategy"
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
        groups = config.get("config_groups") or {}
        if not isinstance(groups, Mapping) or len(groups) != 1:
            raise _unsupported("config_groups", groups)
        (group,) = groups.values()
        if list(group.get("targets") or []) != ["Linear"]:
            raise _unsupported("targets", group.get("targets"))
        if config.get("format", "float-quantized") != "float-quantized":
            raise _unsupported("format", config["format"])
        weights = _float8("weights", group.get("weights"))
        inputs = _float8("input_activations", group.get("input_activations"))
        strategy, static = str(weights.get("strategy")), not inputs.get("dynamic", False)
        if (strategy, static, inputs.get("strategy")) not in (
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
        and scheme.get("symmetric", True)
    ):
        return scheme
    raise _unsupported(key, scheme)


def _unsupported(key: str, value: Any) -> ValueError:
    return ValueError(
        f"compressed-tensors: {key} is {value!r}, {WANTED}. Quantise the model again by such a "
        f"recipe (llm-compressor's FP8 or FP8_DYNAMIC)."
    )
