from pathlib import Path

import pytest

from tools.bootstrap import buildbox
from tools.bootstrap.closure import Package
from tools.bootstrap.errors import BrokenBuildError, SuiteMovedError
from tools.bootstrap.fake_packages import elf_file, fake_loader
from tools.bootstrap.install import Layout

LIBRARIES = "usr/lib/x86_64-linux-gnu"


def package(version: str) -> Package:
    return Package("u", f"buildbox_{version}_amd64.deb", 1, "0")


def unpack(root: Path) -> Path:
    for name in buildbox.PROGRAMS:
        program = root / "usr/bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_bytes(elf_file("/lib64/ld-linux-x86-64.so.2"))
    for name in ("libc.so.6", "libgrpc.so.29", "libnss_dns.so.2", "libunused.so.1"):
        library = root / LIBRARIES / name
        library.parent.mkdir(parents=True, exist_ok=True)
        library.write_bytes(elf_file(None))
    return fake_loader(root, {"libgrpc.so.29": str(root / LIBRARIES / "libgrpc.so.29")})


def test_the_version_is_buildboxs_own() -> None:
    assert buildbox.version_of([package("1.4.16+dfsg-1")]) == "1.4.16"


@pytest.mark.parametrize("packages", [[], [package("2.0-1")]])
def test_another_major_version_or_none_is_said(packages: list[Package]) -> None:
    with pytest.raises(SuiteMovedError, match=r"wanted 1\.x: put buildbox-casd"):
        buildbox.version_of(packages)


def test_the_prefix_holds_the_programs_and_what_they_map(tmp_path: Path) -> None:
    log = unpack(tmp_path / "unpacked")
    (tmp_path / "staged").mkdir()
    final = tmp_path / "buildbox" / "1.4.16"

    buildbox.build(tmp_path / "unpacked", tmp_path / "staged", final)

    programs = sorted(path.name for path in (tmp_path / "staged/bin").iterdir())
    libraries = sorted(path.name for path in (tmp_path / "staged/lib").iterdir())
    assert programs == sorted(buildbox.PROGRAMS)
    assert libraries == ["ld-linux-x86-64.so.2", "libgrpc.so.29", "libnss_dns.so.2"]
    patched = log.read_text()
    assert f"--set-interpreter {final}/lib/ld-linux-x86-64.so.2" in patched
    assert f"--force-rpath --set-rpath {final}/lib" in patched


def test_a_prefix_is_ready_only_where_it_was_made(tmp_path: Path) -> None:
    unpack(tmp_path / "unpacked")
    home = tmp_path / "buildbox"
    staged = home / "1.4.16"
    staged.mkdir(parents=True)
    buildbox.build(tmp_path / "unpacked", staged, staged)
    assert not buildbox.is_ready(Layout(home))
    (home / "current").symlink_to("1.4.16")
    assert buildbox.is_ready(Layout(home))

    home.rename(tmp_path / "moved")

    assert not buildbox.is_ready(Layout(tmp_path / "moved"))


def test_a_renamed_program_is_named(tmp_path: Path) -> None:
    unpack(tmp_path / "unpacked")
    (tmp_path / "unpacked/usr/bin/buildbox-casd").unlink()
    (tmp_path / "staged").mkdir()

    with pytest.raises(BrokenBuildError, match="brought no buildbox-casd: were they renamed"):
        buildbox.build(tmp_path / "unpacked", tmp_path / "staged", tmp_path / "final")


def test_a_program_that_does_not_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(BrokenBuildError, match="buildbox-casd does not start"):
        buildbox.run(tmp_path)
