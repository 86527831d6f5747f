"""Quantisation methods by the name that a checkpoint's config.json gives as `quant_method`.

A method registers itself when its module is imported, and whoever needs it imports it: a test
that depends on one method is then not affected by a change to another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from layers.quantization.base import QuantizationConfig

Config = TypeVar("Config", bound=type[QuantizationConfig])

# Names whose module is called otherwise.
_MODULES = {"compressed-tensors": "compressed_tensors", "modelopt": "modelopt_fp4"}

_configs: dict[str, type[QuantizationConfig]] = {}


def register(name: str) -> Callable[[Config], Config]:
    """Class decorator that makes a config known under `name`.

    Raises:
        ValueError: another class has the name.
    """

    def add(config: Config) -> Config:
        other = _configs.setdefault(name, config)
        if other.__qualname__ != config.__qualname__ or other.__module__ != config.__module__:
            raise ValueError(
                f"quantisation method '{name}' is registered as {other.__module__}."
                f"{other.__qualname__} already. Choose another name for {config.__qualname__}."
            )
        return config

    return add


def get_quantization_config(name: str) -> type[QuantizationConfig]:
    """The config class registered under `name`.

    Raises:
        ValueError: no such method was imported.
    """
    if not isinstance(name, str):
        raise ValueError(
            f"quantisation method is {name!r}, wanted a name such as 'fp8': the quant_method of a "
            f"checkpoint's quantization_config."
        )
    if name in _configs:
        return _configs[name]
    known = ", ".join(sorted(_configs)) or "none"
    module = _MODULES.get(name, name)
    raise ValueError(
        f"quantisation method '{name}' is not registered; registered are: {known}. If "
        f"docs/methods.md lists it, import layers.quantization.{module} and add "
        f"//layers/quantization:{module} to the target's deps; if not, it is not supported."
    )


def names_of(config: type[QuantizationConfig]) -> tuple[str, ...]:
    """The names under which a config class is registered, in order of registration."""
    return tuple(name for name, known in _configs.items() if known is config)
