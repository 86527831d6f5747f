"""Whether a folder's tensors are those that a model wants; all that is wrong is said at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from layers.models.checkpoint.expected import Wanted
from layers.models.checkpoint.files import CheckpointFiles, StoredTensor

_NUMBER = re.compile(r"\.(\d+)(?=\.)")


def problems_of(
    files: CheckpointFiles, wanted: Mapping[str, Wanted], spare: Collection[str] = ()
) -> list[str]:
    """A sentence for each thing that is wrong with the files or their tensors.

    Args:
        files: of the folder.
        wanted: by name.
        spare: names of tensors that may be there too, and are not loaded.
    """
    problems = list(files.problems)
    # Of a file that cannot be read nobody knows what it lacks.
    if not files.problems:
        problems += _listed("missing", (name for name in wanted if name not in files.tensors))
    surplus = [n for n in files.tensors if n not in wanted and n not in spare]
    problems += _listed("surplus, which the model has no place for", surplus)
    for name, tensor in files.tensors.items():
        if name in wanted:
            problems += _misfits(name, tensor, wanted[name])
    return problems


def _misfits(name: str, tensor: StoredTensor, wanted: Wanted) -> list[str]:
    found = []
    if tensor.shape not in wanted.shapes:
        shapes = " or ".join(str(shape) for shape in wanted.shapes)
        found.append(f"'{name}' in '{tensor.file}' has shape {tensor.shape}, wanted {shapes}")
    if tensor.dtype not in wanted.dtypes:
        dtypes = " or ".join(sorted(str(dtype) for dtype in wanted.dtypes))
        found.append(f"'{name}' in '{tensor.file}' has dtype {tensor.dtype}, wanted {dtypes}")
    return found


def _listed(what: str, names: Iterable[str]) -> list[str]:
    """One sentence for names that differ in their numbers alone, which it counts."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(_NUMBER.sub(".N", name), []).append(name)
    return [
        f"'{same[0]}' is {what}"
        if len(same) == 1
        else f"{len(same)} tensors are {what}: {', '.join(repr(name) for name in same)}"
        for same in alike.values()
    ]
