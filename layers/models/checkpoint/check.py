"""Whether a folder's tensors are those that a model wants; all that is wrong is said at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from layers.models.checkpoint.expected import Wanted
from layers.models.checkpoint.files import CheckpointFiles, StoredTensor
from layers.models.checkpoint.findings import Finding, plain, sentences


def problems_of(
    files: CheckpointFiles,
    wanted: Mapping[str, Wanted],
    spare: Mapping[str, Wanted | None] | None = None,
    missing: Collection[str] = (),
) -> list[str]:
    """A sentence for each thing that is wrong with the files or their tensors.

    Args:
        files: of the folder.
        wanted: by name.
        spare: tensors that may be there too, by name; None where nobody reads it.
        missing: names of spare tensors that have to be there, as others of theirs are.
    """
    problems = list(files.problems)
    known: dict[str, Wanted | None] = {**(spare or {}), **wanted}
    found: list[Finding] = []
    # Of a file that cannot be read nobody knows what it lacks.
    if not files.problems:
        absent = [name for name in wanted if name not in files.tensors]
        found += [plain(name, "missing") for name in (*absent, *missing)]
    surplus = [name for name in files.tensors if name not in known]
    found += [plain(name, "surplus, which the model has no place for") for name in surplus]
    for name, tensor in files.tensors.items():
        want = known.get(name)
        if want is not None:
            found += _misfits(name, tensor, want)
    return problems + sentences(found)


def _misfits(name: str, tensor: StoredTensor, wanted: Wanted) -> Iterator[Finding]:
    place = f"'{name}' in '{tensor.file}'"
    if tensor.shape not in wanted.shapes:
        shapes = " or ".join(str(shape) for shape in wanted.shapes)
        said = f"{place} has shape {tensor.shape}, wanted {shapes}"
        yield Finding(name, "of another shape", said)
    if tensor.dtype not in wanted.dtypes:
        dtypes = " or ".join(sorted(str(dtype) for dtype in wanted.dtypes))
        said = f"{place} has dtype {tensor.dtype}, wanted {dtypes}"
        yield Finding(name, "of another dtype", said)
