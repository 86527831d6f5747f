"""The memory that an object holds on to: every tensor storage within its reach."""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

_LEAVES = (str, bytes, int, float, bool, type(None), type, types.ModuleType, torch.dtype)


def tensors_within(root: object) -> list[torch.Tensor]:
    """Tensors reached from `root` by attributes, containers, partials, methods and closures.

    Modules and classes are not entered: what they keep shows in `new_storages`.
    """
    found: list[torch.Tensor] = []
    seen: dict[int, object] = {}
    waiting: list[object] = [root]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, _LEAVES):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, torch.Tensor):
            found.append(thing)
        waiting += _parts(thing)
    return found


def _parts(thing: object) -> Iterator[object]:
    yield from getattr(thing, "__dict__", {}).values()
    if isinstance(thing, Mapping):
        yield from thing.values()
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from thing
    elif isinstance(thing, functools.partial):
        yield from (thing.func, thing.args, thing.keywords)
    elif isinstance(thing, types.MethodType):
        yield from (thing.__self__, thing.__func__)
    elif isinstance(thing, types.FunctionType):
        yield from (cell.cell_contents for cell in thing.__closure__ or () if _filled(cell))
        yield from (thing.__defaults__, thing.__kwdefaults__)


def _filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def storages(tensors: Iterable[torch.Tensor]) -> dict[int, int]:
    """Bytes of each storage that the tensors share, by address; empty ones left out."""
    sizes: dict[int, int] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.nbytes():
            sizes[storage.data_ptr()] = storage.nbytes()
    return sizes


def all_storages() -> dict[int, int]:
    """Every storage that some Python object in this process holds."""
    gc.collect()
    # isinstance would ask lazy proxies of other packages for their class.
    return storages(t for t in gc.get_objects() if issubclass(type(t), torch.Tensor))
