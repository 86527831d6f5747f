"""Whether a quantised checkpoint has scales of an FP8 cache: two conventions say so.

- NVIDIA ModelOpt: `kv_cache_quant_algo` "FP8".
- compressed-tensors, and config.json as ModelOpt writes it today: `kv_cache_scheme`, an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from layers.models.config.keys import shown
from layers.models.errors import ModelConfigError

ALGORITHM = "kv_cache_quant_algo"
SCHEME = "kv_cache_scheme"
# What our caches of codes are: e4m3 by one scale a tensor, known before.
_FP8: dict[str, tuple[Any, ...]] = {
    "num_bits": (8,),
    "type": ("float",),
    "strategy": (None, "tensor"),
    "dynamic": (None, False),
    "symmetric": (None, True),
    "group_size": (None,),
    "block_structure": (None,),
}


def has_cache_scales(path: Path, quantization: Mapping[str, Any] | None) -> bool:
    """Whether the checkpoint may hold `k_scale` and `v_scale` of each layer's cache.

    Args:
        path: of config.json, for messages.
        quantization: the `quantization_config`, or a whole hf_quant_config.json.

    Raises:
        ModelConfigError: a cache of another format, by key and value.
    """
    keys = dict(quantization or {})
    nested = keys.get("quantization")
    keys |= nested if isinstance(nested, Mapping) else {}
    algorithm, scheme = keys.get(ALGORITHM), keys.get(SCHEME)
    if algorithm not in (None, "", "FP8"):
        raise _wrong(path, ALGORITHM, algorithm, '"FP8" or null')
    if scheme is not None:
        is_fp8 = isinstance(scheme, Mapping) and all(
            scheme.get(key) in possible for key, possible in _FP8.items()
        )
        if not is_fp8:
            wanted = 'null, or {"num_bits": 8, "type": "float", "strategy": "tensor"}, not dynamic'
            raise _wrong(path, SCHEME, scheme, wanted)
    return algorithm == "FP8" or scheme is not None


def _wrong(path: Path, key: str, value: Any, wanted: str) -> ModelConfigError:
    return ModelConfigError(
        f"'{path.parent}': quantization has {key} {shown(value)}, wanted {wanted}, as no "
        f"other format of a cache is supported. Quantise the model again with such a cache, or "
        f"with none."
    )
