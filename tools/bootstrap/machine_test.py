import os
import pwd
from pathlib import Path

import pytest

from tools.bootstrap import machine
from tools.bootstrap.errors import NoSpaceError, UnsupportedMachineError, UnusableFolderError

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\nVERSION_CODENAME=trixie\n'
UBUNTU = 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n'


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in machine.NEEDED_PROGRAMS:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def release(folder: Path, text: str) -> Path:
    path = folder / "os-release"
    path.write_text(text)
    return path


def test_debian_gives_its_codename(programs: Path, tmp_path: Path) -> None:
    assert machine.require_debian(release(tmp_path, DEBIAN)) == "trixie"


def test_debian_testing_names_no_codename_of_its_own(programs: Path, tmp_path: Path) -> None:
    assert machine.require_debian(release(tmp_path, "ID=debian\n")) == "stable"


def test_another_system_is_named_with_bazelisk_as_the_way_out(
    programs: Path, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedMachineError, match=r"Ubuntu 24\.04\.1 LTS.*bazelisk"):
        machine.require_debian(release(tmp_path, UBUNTU))


def test_a_system_without_os_release_is_no_debian(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedMachineError, match="an unknown system"):
        machine.require_debian(tmp_path / "absent")


@pytest.mark.parametrize("name", machine.NEEDED_PROGRAMS)
def test_a_missing_program_is_named(programs: Path, tmp_path: Path, name: str) -> None:
    (programs / name).unlink()
    with pytest.raises(UnsupportedMachineError, match=f"needs {name}, missing"):
        machine.require_debian(release(tmp_path, DEBIAN))


@pytest.mark.parametrize("name", ["a b", "a:b", 'a"b', "a$b", "jörg"])
def test_a_path_that_would_break_rc_files_is_refused(name: str) -> None:
    machine.require_plain_path(Path("/home/joerg-1/.cache/plumb+line_2"))
    with pytest.raises(UnusableFolderError, match="of ASCII letters"):
        machine.require_plain_path(Path("/home") / name)


def test_too_little_space_is_told_in_numbers(tmp_path: Path) -> None:
    machine.require_space(tmp_path, 1)
    with pytest.raises(NoSpaceError, match=r"MB free, .* needs 9000000000 MB.*XDG_CACHE_HOME"):
        machine.require_space(tmp_path, 9_000_000_000_000_000)


@pytest.mark.parametrize(
    ("cache", "home"),
    [("/c", "/c"), ("", "/h/.cache"), ("relative", "/h/.cache")],
)
def test_the_cache_folder_follows_xdg(
    monkeypatch: pytest.MonkeyPatch, cache: str, home: str
) -> None:
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert machine.default_home() == Path(home) / "plumbline/bazel"


@pytest.mark.parametrize("home", ["", "relative", None])
def test_without_a_good_home_passwd_is_asked(
    monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    expected = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert machine.default_home() == expected / ".cache/plumbline/bazel"
