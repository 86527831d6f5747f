"""The largest input that each linear layer meets, for static scales of activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tools.tiny.data import Texts

_ROWS = 512


def largest_inputs(model: torch.nn.Module, some: Texts) -> dict[str, float]:
    """{name of the layer: largest |x|} over these texts, of drafts' layers too.

    Raises:
        ValueError: a layer met no token, such as an expert that is never chosen.
    """
    found: dict[str, float] = {}
    handles = [
        module.register_forward_pre_hook(_keeper(found, name))
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
    ]
    for start in range(0, len(some), _ROWS):
        ids = some.rows(slice(start, start + _ROWS)).ids
        forward = getattr(model, "forward_with_draft", model)
        with torch.no_grad():
            forward(ids)
    for handle in handles:
        handle.remove()
    if unmet := [name for name, largest in found.items() if largest == 0]:
        raise ValueError(
            f"{', '.join(unmet)} met no token: give more texts, or balance the experts in training"
        )
    return dict(sorted(found.items()))


def _keeper(found: dict[str, float], name: str) -> Callable[[torch.nn.Module, Any], None]:
    found[name] = 0.0

    def keep(module: torch.nn.Module, inputs: Any) -> None:
        if inputs[0].numel():
            found[name] = max(found[name], inputs[0].abs().max().item())

    return keep
