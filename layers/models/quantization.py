"""From a checkpoint's `quantization_config` to the config that chooses its layers' methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# All register themselves, for linear layers and for experts.
import layers.moe.quantization.compressed_tensors
import layers.moe.quantization.fp8
import layers.moe.quantization.int8
import layers.moe.quantization.mxfp4
import layers.moe.quantization.nvfp4
import layers.quantization.blockwise_int8
import layers.quantization.compressed_tensors
import layers.quantization.fp8
import layers.quantization.modelopt_fp4
import layers.quantization.modelopt_fp8
import layers.quantization.mxfp4
import layers.quantization.mxfp8
import layers.quantization.w8a8_fp8
import layers.quantization.w8a8_int8  # noqa: F401
from layers.models.config.keys import shown
from layers.models.errors import UNREADABLE, ModelConfigError
from layers.quantization.base import QuantizationConfig
from layers.quantization.registry import get_quantization_config


def quantization_of(
    config: Mapping[str, Any] | None,
    packed_modules: Mapping[str, Sequence[str]],
    backend: str | None,
) -> QuantizationConfig | None:
    """The config of a model's layers; None where none is quantised.

    Args:
        config: the checkpoint's `quantization_config`, or None.
        packed_modules: which checkpoint modules each fused layer of the model holds.
        backend: of the matmuls, by name; None chooses by capability.

    Raises:
        ModelConfigError: an unknown method, or one that does not support what the config says.
    """
    if config is None:
        return None
    method = config.get("quant_method")
    if method is None:
        raise ModelConfigError(
            "quantization_config has no quant_method, wanted a name, such as 'fp8'. Add it."
        )
    if not isinstance(method, str):
        raise ModelConfigError(
            f"quantization_config: quant_method is {shown(method)}, wanted a name, such as 'fp8'. "
            f"Correct it."
        )
    if method == "modelopt" and _algorithm(config) == "FP8":
        method = "modelopt_fp8"
    try:
        made = get_quantization_config(method).from_config(config, backend=backend)
    except ValueError as error:
        raise ModelConfigError(f"quantization_config: {error}") from error
    except UNREADABLE as error:
        raise ModelConfigError(
            f"quantization_config: method '{method}' cannot take the values of its keys "
            f"({type(error).__name__}: {error}). Correct them, as the method's own files have them."
        ) from error
    made.packed_modules_mapping = {fused: tuple(parts) for fused, parts in packed_modules.items()}
    return made


def _algorithm(config: Mapping[str, Any]) -> Any:
    """ModelOpt's name for what its one quant_method stands for."""
    nested = config.get("quantization")
    inner = nested if isinstance(nested, Mapping) else {}
    return config.get("quant_algo", inner.get("quant_algo"))
