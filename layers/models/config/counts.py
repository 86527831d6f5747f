"""What config.json must not exceed, seen before torch is imported or a layer is made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from layers.models.config.keys import MOST, Keys

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
# As the format has it: longer headers are refused by its own reader.
_LONGEST_HEADER = 100_000_000
_COUNTED = {
    "num_hidden_layers": ("layers", re.compile(r"\.layers\.([0-9]+)\.")),
    "n_routed_experts": ("experts", re.compile(r"\.experts\.([0-9]+)\.")),
}
# Fewer are named one by one as missing tensors, which says more.
_MISSING = 64


def check_settings(folder: Path) -> None:
    """Reads the folder's JSON files alone, in milliseconds: what would keep a loader busy for ever.

    All else is said by the loader itself.

    Args:
        folder: of a Hugging Face checkpoint.

    Raises:
        ModelConfigError: a file that is no JSON or nested too deeply, a size that no model has, or
            many more layers or experts than the checkpoint's tensors are of.
    """
    keys = Keys.read(folder / "config.json")
    for key in MOST:
        value = keys.values.get(key)
        if isinstance(value, int) and value > 0:
            keys.integer(key)
    for name in ("generation_config.json", "hf_quant_config.json"):
        if (folder / name).exists():
            Keys.read(folder / name)
    names = _names(folder)
    if names:
        check_counts(keys, names)


def check_counts(keys: Keys, names: Iterable[str]) -> None:
    """Compares counts of layers and experts with the tensors that there are.

    Args:
        keys: of config.json.
        names: of the checkpoint's tensors.

    Raises:
        ModelConfigError: many more than there are tensors of.
    """
    names = list(names)
    for key, (what, pattern) in _COUNTED.items():
        wanted = keys.values.get(key)
        held = len({found for name in names for found in pattern.findall(name)})
        if isinstance(wanted, int) and wanted > 2 * held + _MISSING:
            raise keys.wrong(key, f"{held}, as the checkpoint has tensors of so many {what}")


def _names(folder: Path) -> list[str]:
    """Of the tensors, by the index or the only file; none where the loader has to say why."""
    if (folder / _INDEX).exists():
        found = Keys.read(folder / _INDEX).values.get("weight_map")
    else:
        found = _header(folder / _SINGLE)
    return list(found) if isinstance(found, dict) else []


def _header(path: Path) -> object:
    """A length of 8 bytes, the lowest first, and JSON behind it."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            return json.loads(file.read(length)) if length <= _LONGEST_HEADER else None
    except (OSError, ValueError, RecursionError):
        return None
