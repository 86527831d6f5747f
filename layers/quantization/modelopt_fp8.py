"""FP8 checkpoints of NVIDIA ModelOpt: one scale a weight tensor, and static activations.

The tensors and the arithmetic are those of `layers.quantization.fp8_linear.Fp8TensorLinearMethod`.
Such checkpoints call their method "modelopt", as ModelOpt's others do, with "quant_algo": "FP8"
beside it: give this config's name, "modelopt_fp8", to have it read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from layers.quantization.base import check_values, common_options, flattened
from layers.quantization.fp8 import Fp8Config
from layers.quantization.registry import register

ALGORITHM = "FP8"


@register("modelopt_fp8")
class ModelOptFp8Config(Fp8Config):
    """Picks `Fp8TensorLinearMethod`, static, for every linear layer that is not ignored."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, backend: str | None = None) -> Self:
        """Reads the `quantization_config` of a config.json, or a whole hf_quant_config.json.

        The latter keeps the same keys under "quantization". Read are `quant_algo` and the ignored
        layers, called `exclude_modules` or as in `common_options`; keys about the KV cache are
        passed over, as no linear layer reads them.

        Raises:
            ValueError: another algorithm, or a list that is none.
        """
        keys = flattened("modelopt_fp8", config)
        check_values("modelopt_fp8", keys, activation_scheme=("static",), weight_block_size=())
        algorithm = keys.get("quant_algo", ALGORITHM)
        if algorithm != ALGORITHM:
            raise ValueError(
                f"modelopt_fp8: quant_algo is {algorithm!r}, wanted '{ALGORITHM}'. Use the "
                f"quant_method of that format, such as 'modelopt_fp4' for NVFP4."
            )
        return cls(activation_scheme="static", backend=backend, **common_options(keys))
