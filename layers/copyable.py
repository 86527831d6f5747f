"""Parameters that stay what they are when a layer is copied or pickled."""

from __future__ import annotations

import copy
from typing import Any, Self

import torch


class CopyableParameter(torch.nn.Parameter):  # type: ignore[misc]
    """A parameter whose copies keep its class, its attributes, and whom it shares memory with.

    torch's own Parameter copies its values into memory of its own: a layer's method that holds a
    view of the weight would be left with a second copy of it, which no change of the parameter
    reaches.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        data, attributes = copy.deepcopy((self.data, self.__dict__), memo)
        copied: Self = restore(type(self), data, attributes)
        return copied

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # torch.nn.Parameter's own would come back as a plain Parameter.
        return restore, (type(self), self.data, self.__dict__)


def restore(kind: type[Any], data: torch.Tensor, attributes: dict[str, Any]) -> Any:
    """A parameter of that class and those attributes, around `data`; no constructor runs."""
    parameter = torch.nn.Parameter.__new__(kind, data, requires_grad=False)
    parameter.__dict__.update(attributes)
    return parameter


def replace_parameter(layer: torch.nn.Module, name: str, value: torch.Tensor) -> torch.Tensor:
    """Puts a tensor in a parameter's place, whose memory is free then; returns what was put."""
    layer.register_parameter(name, CopyableParameter(value, requires_grad=False))
    return layer.get_parameter(name).data
