"""MoE methods by the name that a checkpoint's config.json gives as `quant_method`.

A method registers itself when its module is imported, and whoever needs it imports it: a linear
layer, or a test of one, does not depend on MoE code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from layers.moe.quantization.base import MoEMethodBase
from layers.quantization.base import QuantizationConfig
from layers.quantization.prefix import matches
from layers.quantization.registry import names_of

Method = TypeVar("Method", bound=type[MoEMethodBase])

_methods: dict[str, type[MoEMethodBase]] = {}


def register_moe(*names: str) -> Callable[[Method], Method]:
    """Class decorator that makes a method known under each of `names`, `quant_method`s.

    Raises:
        ValueError: another class has the name.
    """

    def add(method: Method) -> Method:
        for name in names:
            other = _methods.setdefault(name, method)
            if other.__qualname__ != method.__qualname__ or other.__module__ != method.__module__:
                raise ValueError(
                    f"the MoE method of '{name}' is registered as {other.__module__}."
                    f"{other.__qualname__} already. Choose another name for {method.__qualname__}."
                )
        return method

    return add


def get_moe_method(
    config: QuantizationConfig,
    prefix: str,
    expert_names: Sequence[Sequence[str]],
    backend: str | None,
) -> MoEMethodBase | None:
    """The method for the MoE layer of that prefix; None if the checkpoint leaves it unquantised.

    Args:
        config: the model's.
        prefix: the layer's name, such as "model.layers.0.mlp.experts".
        expert_names: for each way in which checkpoints name an expert's matmuls, the names within
            the layer, "3.gate_proj", of all experts.
        backend: the runner asked for; None takes the config's.

    Raises:
        ValueError: no MoE method for the config was imported, or some experts are ignored and
            others not.
    """
    if _is_ignored(config, prefix, expert_names):
        return None
    for name in names_of(type(config)):
        if name in _methods:
            return _methods[name].from_config(config, backend or config.backend)
    known = ", ".join(sorted(_methods)) or "none"
    raise ValueError(
        f"layer '{prefix}': no MoE method is registered for {type(config).__name__} "
        f"({', '.join(names_of(type(config))) or 'not registered itself'}); registered are: "
        f"{known}. Import its module of layers.moe.quantization, and add it to the target's deps."
    )


def _is_ignored(
    config: QuantizationConfig, prefix: str, expert_names: Sequence[Sequence[str]]
) -> bool:
    """Whether the checkpoint leaves the layer unquantised, by its name or by all its experts'."""
    ignored = config.ignored_layers
    if any(matches(prefix, entry) for entry in ignored):
        return True
    dot = "." if prefix else ""
    for names in expert_names:
        # Lists may name thousands of other layers; an entry of ours ends within an expert's name.
        parts = {part for name in names for part in name.split(".")}
        near = [e for e in ignored if set("*?:") & set(e) or e.rpartition(".")[2] in parts]
        found = [n for n in names if any(matches(f"{prefix}{dot}{n}", e) for e in near)]
        if found and len(found) < len(names):
            other = next(n for n in names if n not in found)
            raise ValueError(
                f"layer '{prefix}': the quantisation config ignores {len(found)} of the "
                f"{len(names)} matrices of its experts, '{found[0]}' among them, but not "
                f"'{other}'. One layer has one method: ignore all of them or none."
            )
        if found:
            return True
    return False
