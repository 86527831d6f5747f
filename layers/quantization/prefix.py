"""Which layers a checkpoint leaves unquantised, decided by their names.

An entry of a checkpoint's list names layers in one of these ways:

- dotted components, found anywhere in the name: "lm_head", "layers.0.mlp", "mlp.gate";
- a pattern with `*` or `?` for the whole name, or for that of a module around the layer:
  "model.vision.*", "model.layers.*.self_attn" (gpt-oss);
- a regular expression, after `re:`, that matches from the start of the name and need not reach its
  end, as in compressed-tensors: "re:.*vision_tower".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase


def matches(prefix: str, entry: str) -> bool:
    """Whether an entry of the list names the layer `prefix`.

    Raises:
        ValueError: not a regular expression after `re:`.
    """
    if entry.startswith("re:"):
        try:
            return re.match(entry.removeprefix("re:"), prefix) is not None
        except re.error as error:
            raise ValueError(
                f"ignored layer '{entry}' is not a regular expression: {error}. Correct the entry "
                f"in the quantisation config."
            ) from error
    if "*" in entry or "?" in entry:
        return fnmatchcase(prefix, entry) or fnmatchcase(prefix, f"{entry}.*")
    # Whole components only: "mlp.gate" is the router and must not catch "mlp.gate_proj".
    return f".{entry}." in f".{prefix}."


def is_layer_ignored(
    prefix: str,
    ignored_layers: Sequence[str],
    packed_modules_mapping: Mapping[str, Sequence[str]],
) -> bool:
    """Whether the layer is left unquantised, by its own name or by those of all its shards.

    Raises:
        ValueError: some shards of a fused layer are to be quantised and others not, or an entry is
            not what it says it is.
    """
    if any(matches(prefix, entry) for entry in ignored_layers):
        return True
    parent, dot, leaf = prefix.rpartition(".")
    shards = [f"{parent}{dot}{part}" for part in packed_modules_mapping.get(leaf, ())]
    ignored = [s for s in shards if any(matches(s, entry) for entry in ignored_layers)]
    if ignored and len(ignored) < len(shards):
        others = [s for s in shards if s not in ignored]
        raise ValueError(
            f"layer '{prefix}' fuses {', '.join(shards)}, of which the quantisation config ignores "
            f"{', '.join(ignored)} but not {', '.join(others)}. One layer has one method: ignore "
            f"all of them or none, or build them as separate layers."
        )
    return bool(ignored)
