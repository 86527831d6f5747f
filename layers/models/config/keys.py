"""The keys of a JSON file, read one by one: each is of the kind and in the range asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from layers.models.errors import ModelConfigError

# Far beyond any model, and so small that the sizes of a layer's tensors multiply to less than 2⁶³.
MOST = {
    "head_dim": 2**16,
    "hidden_size": 2**20,
    "intermediate_size": 2**20,
    "kv_lora_rank": 2**16,
    "max_position_embeddings": 2**24,
    "moe_intermediate_size": 2**20,
    "n_routed_experts": 2**14,
    "n_shared_experts": 2**10,
    "num_attention_heads": 2**14,
    "num_hidden_layers": 2**12,
    "num_key_value_heads": 2**14,
    "num_local_experts": 2**14,
    "q_lora_rank": 2**20,
    "qk_nope_head_dim": 2**16,
    "qk_rope_head_dim": 2**16,
    "v_head_dim": 2**16,
    "vocab_size": 2**24,
}
_MOST_OF_OTHERS = 2**31 - 1
# Norms' epsilons, factors and bases of rotations are below it, and float32 holds their squares.
_MOST_NUMBER = 1e15
_IDS = range(_MOST_OF_OTHERS + 1)
_SHOWN = 100


class Keys:
    """The object that a JSON file holds.

    Args:
        path: of the file, for messages.
        values: what it holds.
    """

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self.values = values

    @classmethod
    def read(cls, path: Path) -> Keys:
        """The file's.

        Raises:
            ModelConfigError: no such file, no JSON, or no object.
        """
        if path.exists() and not path.is_file():
            raise ModelConfigError(f"'{path}' is no file, wanted one of JSON. Download it again.")
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except RecursionError as error:
            raise ModelConfigError(
                f"'{path}' has objects or lists nested too deeply to be read, wanted a few levels. "
                f"Download or write it again."
            ) from error
        except OSError as error:
            raise ModelConfigError(
                f"'{path}' cannot be read ({error.strerror}). Give the folder of a Hugging Face "
                f"checkpoint, which has this file beside its *.safetensors."
            ) from error
        except ValueError as error:
            raise ModelConfigError(
                f"'{path}' is no JSON: {error}. Download or write it again."
            ) from error
        if not isinstance(values, dict):
            raise ModelConfigError(f"'{path}' holds {shown(values)}, wanted an object. Correct it.")
        return cls(path, values)

    def integer(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number from `least` to MOST of the key; `default` where it is missing.

        Raises:
            ModelConfigError: naming the key, and what it is.
        """
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(key, f"a whole number of {least} or more")
        most = MOST.get(key, _MOST_OF_OTHERS)
        if value > most:
            raise self.wrong(key, f"{most} at most, as no model has more")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number above 0; as `integer`."""
        value = self._value(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not value > 0:
            raise self.wrong(key, "a number above 0")
        if value > _MOST_NUMBER:
            raise self.wrong(key, f"{_MOST_NUMBER:g} at most")
        return float(value)

    def boolean(self, key: str, default: bool | None = None) -> bool:
        """True or false; as `integer`."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def only(self, key: str, *possible: object) -> None:
        """Refuses a key that is there and is none of `possible`: what no model here computes.

        Raises:
            ModelConfigError: naming the key, what it is, and what is possible.
        """
        if key not in self.values:
            return
        value = self.values[key]
        if not any(value == p and type(value) is type(p) for p in possible):
            known = " or ".join(json.dumps(p) for p in possible)
            raise self.wrong(key, f"{known}, as nothing else is supported")

    def tokens(self, key: str) -> tuple[int, ...]:
        """Token ids: one, a list of them, or none where the key is missing or null.

        Raises:
            ModelConfigError: naming the key, and what it is.
        """
        value = self.values.get(key)
        listed = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(i, int) and not isinstance(i, bool) and i in _IDS for i in listed):
            raise self.wrong(key, "a token's id, or a list of them")
        return tuple(listed)

    def inner(self, key: str) -> Mapping[str, Any] | None:
        """An object within, or None where it is missing or null.

        Raises:
            ModelConfigError: naming the key, and what it is.
        """
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, "an object or null")
        return value

    def strings(self, key: str, possible: Sequence[str], count: int) -> tuple[str, ...]:
        """A list of `count` strings, each one of `possible`.

        Raises:
            ModelConfigError: naming the key, and what it is.
        """
        value = self.values.get(key)
        listed = value if isinstance(value, list) else []
        if len(listed) != count or not all(each in possible for each in listed):
            raise self.wrong(key, f"a list of {count}, each of {' or '.join(possible)}")
        return tuple(listed)

    def wrong(self, key: str, wanted: str) -> ModelConfigError:
        """The error for a key that is not what is wanted."""
        if key not in self.values:
            return ModelConfigError(
                f"'{self.path}' has no {key}, wanted {wanted}. Add it, as the model was trained."
            )
        return ModelConfigError(
            f"'{self.path}': {key} is {shown(self.values[key])}, wanted {wanted}. Correct it."
        )

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value


def shown(value: object) -> str:
    """A value as JSON has it, on one line: of a long one the beginning."""
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):
        # Nested too deeply, or a whole number of more digits than Python writes.
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
