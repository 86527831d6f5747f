"""The tensors of a folder's safetensors files: names, shapes and dtypes first, values later.

A folder has `model.safetensors`, or shards with `model.safetensors.index.json`, whose "weight_map"
says in which file each tensor is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from layers.models.checkpoint.findings import Finding, sentences
from layers.models.config.keys import Keys
from layers.models.errors import ModelConfigError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
DTYPES = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F32": torch.float32,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "I8": torch.int8,
    "I32": torch.int32,
    "I64": torch.int64,
    "U8": torch.uint8,
}


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a file, its values not read.

    Attributes:
        file: the file's name within the folder.
        shape: of the tensor.
        dtype: torch's, or the file's own word for one that torch has not.
    """

    file: str
    shape: tuple[int, ...]
    dtype: torch.dtype | str


class CheckpointFiles:
    """A folder's tensors, and what is wrong with its files.

    Args:
        folder: of a Hugging Face checkpoint.

    Attributes:
        tensors: by name; of files that could be opened.
        problems: a sentence each: files that are missing or damaged, an index that does not fit.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.tensors: dict[str, StoredTensor] = {}
        self.problems: list[str] = []
        self._twice: list[Finding] = []
        self._whole: set[str] = set()
        index = self.folder / INDEX
        if index.exists():
            self._read_index(index)
        elif (self.folder / SINGLE).exists():
            self._read_file(SINGLE)
        else:
            self.problems.append(
                f"'{self.folder}' has neither {SINGLE} nor {INDEX}, wanted one of them"
            )

    def load(self, names: Iterable[str]) -> Iterator[tuple[str, torch.Tensor]]:
        """Tensors by name, on the CPU, file after file, so that no more than one is in memory."""
        by_file: dict[str, list[str]] = {}
        for name in names:
            by_file.setdefault(self.tensors[name].file, []).append(name)
        for file, inside in sorted(by_file.items()):
            with _opened(self.folder / file) as opened:
                for name in inside:
                    yield name, opened.get_tensor(name)

    def _read_index(self, path: Path) -> None:
        try:
            weight_map = Keys.read(path).inner("weight_map")
        except ModelConfigError as error:
            self.problems.append(str(error))
            return
        if not weight_map or not all(isinstance(file, str) for file in weight_map.values()):
            self.problems.append(
                f"'{path}' has no weight_map, wanted an object with the file of each tensor"
            )
            return
        for file in sorted(set(weight_map.values())):
            self._read_file(file)
        self.problems += sentences(self._twice)
        self._compare(weight_map)

    def _compare(self, weight_map: Any) -> None:
        findings = []
        for name, file in weight_map.items():
            found = self.tensors.get(name)
            if found is None and file in self._whole:
                said = f"{INDEX} has '{name}' in '{file}', which lacks it"
                findings.append(Finding(name, f"in {INDEX}, but not in their files", said))
            elif found is not None and found.file != file:
                said = f"{INDEX} has '{name}' in '{file}', but it is in '{found.file}'"
                findings.append(Finding(name, f"in another file than {INDEX} has them", said))
        for name, tensor in self.tensors.items():
            if name not in weight_map:
                said = f"'{tensor.file}' holds '{name}', which {INDEX} lacks"
                findings.append(Finding(name, f"in files, but not in {INDEX}", said))
        self.problems += sentences(findings)

    def _read_file(self, file: str) -> None:
        path = self.folder / file
        if Path(file).name != file or not _is_name(file):
            self.problems.append(f"{INDEX} names '{file}', wanted a file of its own folder")
            return
        if not path.exists():
            self.problems.append(f"'{file}' is missing, though {INDEX} names it")
            return
        if not path.is_file():
            self.problems.append(f"'{file}' is no file, wanted one of safetensors")
            return
        try:
            with _opened(path) as opened:
                for name in opened.keys():  # noqa: SIM118 it is no dict
                    self._add(file, name, opened.get_slice(name))
            self._whole.add(file)
        except (SafetensorError, OSError) as error:
            size = path.stat().st_size
            self.problems.append(f"'{file}' cannot be read, {size} bytes long: {error}")

    def _add(self, file: str, name: str, part: Any) -> None:
        before = self.tensors.get(name)
        if before is not None:
            said = f"'{name}' is in '{before.file}' and in '{file}', wanted it once"
            self._twice.append(Finding(name, "in two files each, wanted them once", said))
            return
        kind = part.get_dtype()
        self.tensors[name] = StoredTensor(file, tuple(part.get_shape()), DTYPES.get(kind, kind))


def _opened(path: Path) -> Any:
    return safe_open(path, framework="pt", device="cpu")


def _is_name(file: str) -> bool:
    """Whether a file can be called so: systems take 255 bytes of UTF-8, none of them 0."""
    return "\0" not in file and len(file.encode(errors="replace")) < 256 and _is_utf8(file)


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
