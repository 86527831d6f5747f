import struct
import sys
from pathlib import Path

import pytest

from tools.bootstrap import elf
from tools.bootstrap.errors import BrokenBuildError
from tools.bootstrap.fake_packages import elf_file, fake_loader


def test_a_program_names_its_loader(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(elf_file("/lib64/ld-linux-x86-64.so.2"))
    assert elf.is_elf(program)
    assert elf.interpreter(program) == "/lib64/ld-linux-x86-64.so.2"


def test_a_library_names_none(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(elf_file(None))
    assert elf.is_elf(library)
    assert elf.interpreter(library) is None


@pytest.mark.skipif(sys.platform != "linux" or struct.calcsize("P") != 8, reason="64-bit Linux")
def test_this_python_is_a_program_with_a_loader() -> None:
    loader = elf.interpreter(Path("/proc/self/exe").resolve())
    assert loader is not None
    assert Path(loader).exists()


def test_scripts_short_files_links_and_folders_are_no_elf(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "short").write_bytes(b"\x7fE")
    (tmp_path / "program").write_bytes(elf_file("/ld"))
    (tmp_path / "link").symlink_to("program")
    assert [elf.is_elf(tmp_path / name) for name in ("script", "short", "link", ".")] == [False] * 4


def test_a_truncated_header_names_no_loader(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(elf_file("/ld")[:40])
    assert elf.interpreter(tmp_path / "cut") is None


def test_the_loader_lists_what_it_maps(tmp_path: Path) -> None:
    fake_loader(tmp_path, maps={"libz.so.1": "/here/libz.so.1", "libc.so.6": "/here/libc.so.6"})
    loader = elf.Loader(tmp_path, [Path("/here")])
    assert loader.libraries(tmp_path / "any") == {Path("/here/libz.so.1"), Path("/here/libc.so.6")}


def test_without_a_loader_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(BrokenBuildError, match="no ld-linux"):
        elf.Loader(tmp_path, [])


def test_patching_sets_loader_and_a_lasting_rpath(tmp_path: Path) -> None:
    log = fake_loader(tmp_path)
    program = tmp_path / "program"
    program.write_bytes(elf_file("/lib64/ld"))
    program.chmod(0o555)

    patchelf = tmp_path / "patchelf"
    elf.set_loader(elf.Loader(tmp_path, []), patchelf, program, Path("/p/ld"), "/p/lib:/p/jre")

    assert log.read_text().splitlines() == [
        f"{patchelf} --set-interpreter /p/ld {program}",
        f"{patchelf} --force-rpath --set-rpath /p/lib:/p/jre {program}",
    ]
    assert program.stat().st_mode & 0o777 == 0o755


def test_a_failing_patchelf_is_named_with_the_program(tmp_path: Path) -> None:
    fake_loader(tmp_path, fails="cannot grow section")
    program = tmp_path / "program"
    program.write_bytes(elf_file("/lib64/ld"))
    with pytest.raises(BrokenBuildError, match=r"program: cannot grow section"):
        elf.set_loader(elf.Loader(tmp_path, []), tmp_path / "patchelf", program, Path("/ld"), "/l")
