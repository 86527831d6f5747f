"""Looks into ELF files and gives programs the prefix's own loader and libraries."""

import re
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tools.bootstrap.errors import BrokenBuildError

_PT_INTERP = 3
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")


def is_elf(path: Path) -> bool:
    """Whether `path` is a regular file in ELF format."""
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def interpreter(path: Path) -> str | None:
    """The loader that the 64-bit little-endian ELF program `path` asks for; None for a library."""
    with path.open("rb") as stream:
        header = stream.read(_HEADER.size)
        if len(header) < _HEADER.size or header[:6] != b"\x7fELF\x02\x01":
            return None
        offset, size, count = (_HEADER.unpack(header)[index] for index in (5, 9, 10))
        stream.seek(offset)
        table = stream.read(size * count)
        for index in range(count):
            kind, _, start, _, _, length, _, _ = _SEGMENT.unpack_from(table, index * size)
            if kind == _PT_INTERP:
                stream.seek(start)
                return stream.read(length).rstrip(b"\0").decode()
    return None


class Loader:
    """The unpacked packages' own dynamic loader, which runs their programs before any patching.

    Args:
        root: where packages were unpacked.
        folders: library folders in it, first one first.
    """

    def __init__(self, root: Path, folders: Iterable[Path]) -> None:
        found = sorted(root.glob("usr/lib*/ld-linux*.so.*"))
        if not found:
            raise BrokenBuildError(f"The C library's package left no ld-linux under {root}/usr.")
        self.path = found[0]
        library_path = ":".join(map(str, folders))
        self._command = [str(self.path), "--library-path", library_path]

    def run(self, program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs `program` as it came out of its package."""
        command = [*self._command, str(program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def libraries(self, binary: Path) -> set[Path]:
        """The files that the loader maps for `binary`, by soname, those of those too."""
        command = [*self._command, "--list", str(binary)]
        listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return {Path(match) for match in re.findall(r"=> (/\S+) \(0x", listing)}


def set_loader(loader: Loader, patchelf: Path, program: Path, ld: Path, rpath: str) -> None:
    """Makes `program` start with the loader `ld` and search `rpath` first.

    An RPATH, not a RUNPATH: only that one also holds for the libraries of libraries.

    Raises:
        BrokenBuildError: patchelf failed.
    """
    program.chmod(program.stat().st_mode | 0o200)
    for arguments in (["--set-interpreter", str(ld)], ["--force-rpath", "--set-rpath", rpath]):
        result = loader.run(patchelf, *arguments, str(program))
        if result.returncode != 0:
            raise BrokenBuildError(f"patchelf failed on {program}: {result.stderr.strip()}")
