"""What every model's configuration has, whatever its architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch

from layers.models.config.cache_scheme import has_cache_scales
from layers.models.config.keys import Keys, shown
from layers.models.errors import ModelConfigError
from layers.rotary.scaling import RotaryScaling, scaling_from_config

_ROPE_TYPES = ("rope_type", "type")
_ROPE_NUMBERS = (
    *("factor", "original_max_position_embeddings", "beta_fast", "beta_slow"),
    *("mscale", "mscale_all_dim", "low_freq_factor", "high_freq_factor"),
)
_MOST_OF_ROPE = 2**31 - 1
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class ModelConfig:
    """config.json, read; keys are named as there where they mean the same.

    Attributes:
        architecture: `architectures[0]`.
        vocab_size, hidden_size: rows and columns of the embedding.
        num_layers: decoder layers, drafts not counted.
        num_heads: query heads of a layer.
        max_position: positions are below it.
        rms_norm_eps: of every norm.
        rope_theta, rope_scaling: of the rotary embedding.
        tie_word_embeddings: the head has the embedding's weight.
        params_dtype: float16 or bfloat16; None where config.json says another, and the caller has
            to choose.
        eos_token_ids: tokens that end a text; generation_config.json's, or config.json's.
        bos_token_id: the token that begins one, or None.
        num_draft_layers: 1 where the checkpoint has a module that drafts tokens, else 0.
        quantization: the `quantization_config`, or None.
        has_cache_scales: the checkpoint may hold scales of a cache of FP8.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    max_position: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RotaryScaling | None
    tie_word_embeddings: bool
    params_dtype: torch.dtype | None
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None
    num_draft_layers: int
    quantization: Mapping[str, Any] | None
    has_cache_scales: bool

    @classmethod
    def from_keys(cls, keys: Keys, **special: Any) -> Self:
        """Reads the common keys; `special` are the fields of a subclass.

        Raises:
            ModelConfigError: naming a key that is missing or makes no sense.
        """
        theta, scaling = _rope(keys)
        bos = keys.tokens("bos_token_id")
        quantization = _quantization(keys)
        common: dict[str, Any] = {
            "architecture": keys.values["architectures"][0],
            "vocab_size": keys.integer("vocab_size"),
            "hidden_size": keys.integer("hidden_size"),
            "num_layers": keys.integer("num_hidden_layers"),
            "num_heads": keys.integer("num_attention_heads"),
            "max_position": keys.integer("max_position_embeddings"),
            "rms_norm_eps": keys.number("rms_norm_eps"),
            "rope_theta": theta,
            "rope_scaling": scaling,
            "tie_word_embeddings": keys.boolean("tie_word_embeddings", False),
            "params_dtype": DTYPES.get(_dtype(keys)),
            "eos_token_ids": _eos(keys),
            "bos_token_id": bos[0] if bos else None,
            "num_draft_layers": 0,
            "quantization": quantization,
            "has_cache_scales": has_cache_scales(keys.path, quantization),
        }
        keys.only("hidden_act", "silu")
        keys.only("pretraining_tp", 1)
        keys.only("partial_rotary_factor", 1, 1.0, None)
        return cls(**{**common, **special})


def _dtype(keys: Keys) -> str:
    name = "dtype" if "dtype" in keys.values else "torch_dtype"
    value = keys.values.get(name) or "bfloat16"
    if not isinstance(value, str):
        raise keys.wrong(name, "a dtype's name, such as 'bfloat16'")
    return value.removeprefix("torch.")


def _rope(keys: Keys) -> tuple[float, RotaryScaling | None]:
    """Of `rope_theta` and `rope_scaling`, or of both in `rope_parameters`."""
    name = "rope_parameters" if keys.inner("rope_parameters") else "rope_scaling"
    found = dict(keys.inner(name) or {})
    inner = Keys(keys.path, found)
    _check_rope(keys, name, found)
    theta = inner.number("rope_theta") if "rope_theta" in found else keys.number("rope_theta", 1e4)
    if found.get("attention_factor") is not None:
        raise keys.wrong(name, "one without attention_factor: it follows from the factor")
    if "original_max_position_embeddings" not in found:
        given = keys.values.get("original_max_position_embeddings")
        found |= {} if given is None else {"original_max_position_embeddings": given}
        _check_rope(keys, name, found)
    # Pairs of slow and fast dimensions are told by its logarithm.
    if theta <= 1:
        raise (inner if "rope_theta" in found else keys).wrong("rope_theta", "a number above 1")
    try:
        return theta, scaling_from_config(found or None)
    except ValueError as error:
        raise ModelConfigError(f"'{keys.path}': {error}") from error


def _check_rope(keys: Keys, name: str, found: Mapping[str, Any]) -> None:
    """A scaling's numbers are such that float64 can compute with them, and its type is a name."""
    for key, value in found.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if key in _ROPE_TYPES and not isinstance(value, str):
            wanted = "a name, such as 'yarn'"
        elif key in _ROPE_NUMBERS and not (is_number and 0 <= value <= _MOST_OF_ROPE):
            wanted = f"a number from 0 to {_MOST_OF_ROPE}"
        else:
            continue
        raise ModelConfigError(
            f"'{keys.path}': {key} of {name} is {shown(value)}, wanted {wanted}. Correct it."
        )


def _eos(keys: Keys) -> tuple[int, ...]:
    path = keys.path.with_name("generation_config.json")
    generation = Keys.read(path) if path.exists() else keys
    return generation.tokens("eos_token_id") or keys.tokens("eos_token_id")


def _quantization(keys: Keys) -> Mapping[str, Any] | None:
    """config.json's, or NVIDIA ModelOpt's own file."""
    found = keys.inner("quantization_config")
    path = keys.path.with_name("hf_quant_config.json")
    if found is not None or not path.exists():
        return found
    return {"quant_method": "modelopt", **Keys.read(path).values}
