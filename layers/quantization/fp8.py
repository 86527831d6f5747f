"""FP8 (e4m3) checkpoints: one weight scale a tensor, or one for each block of 128x128.

`weight_block_size` decides: without it the tensors are those of `Fp8TensorLinearMethod`, with
[128, 128] (DeepSeek-V3 and Hugging Face's fine-grained fp8) those of `Fp8BlockLinearMethod`, both
in `layers.quantization.fp8_linear`. One scale a row is `layers.quantization.w8a8_fp8`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch

from layers.kernels.fp8.fp8_block_scaled_mm import BLOCK
from layers.quantization.base import (
    LinearMethodBase,
    QuantizationConfig,
    check_values,
    common_options,
)
from layers.quantization.fp8_linear import Fp8BlockLinearMethod, Fp8TensorLinearMethod
from layers.quantization.prefix import is_layer_ignored
from layers.quantization.registry import register

SCHEMES = ("dynamic", "static")


@register("fp8")
class Fp8Config(QuantizationConfig):
    """Picks an FP8 method for every linear layer that is not ignored.

    Args:
        activation_scheme: "static", by a scale that the checkpoint holds, or "dynamic".
        weight_block_size: None, or [128, 128], whose activations are dynamic.
        options: see `QuantizationConfig`.

    Raises:
        ValueError: another scheme or block size, or static activations with blocks.
    """

    def __init__(
        self,
        *,
        activation_scheme: str = "dynamic",
        weight_block_size: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        if activation_scheme not in SCHEMES:
            raise ValueError(
                f"fp8: activation_scheme is {activation_scheme!r}, wanted 'dynamic' or 'static'. "
                f"Correct the quantisation config."
            )
        if weight_block_size is not None:
            _check_blocks(weight_block_size, activation_scheme)
        super().__init__(**options)
        self.static = activation_scheme == "static"
        self.by_blocks = weight_block_size is not None

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, backend: str | None = None) -> Self:
        """Reads `activation_scheme`, `weight_block_size`, and the keys of `common_options`.

        `scale_fmt` "ue8m0" (DeepSeek-V3.1) says that scales are powers of two. Those of the weight
        are what they are; those of activations are float32 here, which is the finer rule.

        Raises:
            ValueError: a value that is not supported, or a checkpoint that is not in fp8 yet.
        """
        check_values("fp8", config, quant_algo=("FP8",))
        _check_stored(config)
        return cls(
            activation_scheme=config.get("activation_scheme", "dynamic"),
            weight_block_size=config.get("weight_block_size"),
            backend=backend,
            **common_options(config),
        )

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> LinearMethodBase | None:
        """A new method object for the layer; None if the checkpoint leaves it unquantised."""
        if is_layer_ignored(prefix, self.ignored_layers, self.packed_modules_mapping):
            return None
        if self.by_blocks:
            return Fp8BlockLinearMethod(self.backend)
        return Fp8TensorLinearMethod(self.backend, static=self.static)


def _check_blocks(weight_block_size: Any, activation_scheme: str) -> None:
    if not isinstance(weight_block_size, Sequence) or [*weight_block_size] != [BLOCK, BLOCK]:
        raise ValueError(
            f"fp8: weight_block_size is {weight_block_size!r}, wanted [{BLOCK}, {BLOCK}] or none. "
            f"Quantise the model again with blocks of that size."
        )
    if activation_scheme != "dynamic":
        raise ValueError(
            f"fp8: activation_scheme is '{activation_scheme}' with weight_block_size "
            f"{[*weight_block_size]}, wanted 'dynamic': a group of activations has a scale of its "
            f"own. Correct the quantisation config."
        )


def _check_stored(config: Mapping[str, Any]) -> None:
    stored = config.get("is_checkpoint_fp8_serialized", True)
    if stored is not True:
        raise ValueError(
            f"fp8: is_checkpoint_fp8_serialized is {stored!r}, wanted a checkpoint whose weights "
            f"are fp8 already (true, or no such key): none is quantised while it is loaded. "
            f"Quantise the model and save it."
        )
    fmt = config.get("fmt", "e4m3")
    if fmt not in ("e4m3", "e4m3fn", "float8_e4m3fn"):
        raise ValueError(
            f"fp8: fmt is {fmt!r}, wanted 'e4m3'. Quantise the model again in that format."
        )
