import errno
import hashlib
import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from tools.bootstrap.closure import Package
from tools.bootstrap.errors import DamagedPackageError, MirrorError
from tools.bootstrap.packages import check, unpack, unpack_all


def package(path: Path) -> Package:
    data = path.read_bytes()
    return Package("http://m.example/x", path.name, len(data), hashlib.sha256(data).hexdigest())


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    folder = tmp_path / "archives"
    folder.mkdir()
    for name, size in (("a_1_all.deb", 3), ("b_1_all.deb", 30), ("c_1_all.deb", 10)):
        (folder / name).write_bytes(name.encode()[:1] * size)
    return folder


@pytest.fixture
def fake_dpkg_deb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dpkg-deb that runs the script `behaviour` with `--extract FILE ROOT`."""
    programs, behaviour = tmp_path / "bin", tmp_path / "behaviour"
    programs.mkdir()
    (programs / "dpkg-deb").write_text(f"#!/bin/sh\n. {behaviour}\n")
    (programs / "dpkg-deb").chmod(0o755)
    behaviour.write_text('cp "$2" "$3"\n')
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return behaviour


def test_the_right_bytes_pass(archives: Path) -> None:
    path = archives / "a_1_all.deb"
    check(path, package(path))
    assert path.exists()


def test_one_wrong_byte_is_found_and_the_file_deleted(archives: Path) -> None:
    path = archives / "a_1_all.deb"
    promised = package(path)
    path.write_bytes(b"aax")
    with pytest.raises(DamagedPackageError, match=rf"a_1_all\.deb.*{promised.sha256}.*try again"):
        check(path, promised)
    assert not path.exists()


def test_all_are_unpacked_and_their_bytes_counted(
    archives: Path, fake_dpkg_deb: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    told: list[int] = []
    unpack_all(archives, [package(path) for path in archives.iterdir()], root, told.append)
    assert sorted(path.name for path in root.iterdir()) == [
        "a_1_all.deb",
        "b_1_all.deb",
        "c_1_all.deb",
    ]
    assert told == [30, 40, 43]


def test_a_damaged_package_is_not_unpacked(
    archives: Path, fake_dpkg_deb: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    promised = package(archives / "b_1_all.deb")
    (archives / "b_1_all.deb").write_bytes(b"other")
    with pytest.raises(DamagedPackageError):
        unpack_all(archives, [promised], root, lambda done: None)
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_a_package_of_a_mirror_on_this_machine_is_unpacked_from_there(
    archives: Path, fake_dpkg_deb: Path, tmp_path: Path, scheme: str
) -> None:
    # apt copies nothing from a `file:` mirror, and its files may have other names than apt's.
    there = tmp_path / "my mirror/pool/a_1_all.deb"
    there.parent.mkdir(parents=True)
    (archives / "a_1_all.deb").rename(there)
    promised = replace(package(there), uri=f"{scheme}{quote(str(there))}")
    root = tmp_path / "root"
    root.mkdir()
    unpack_all(archives, [promised], root, lambda done: None)
    assert (root / "a_1_all.deb").exists()

    there.write_bytes(b"other")
    with pytest.raises(DamagedPackageError, match="Bring the mirror up to date"):
        unpack_all(archives, [promised], root, lambda done: None)
    assert there.exists()


def test_a_package_that_is_nowhere_is_named(
    archives: Path, fake_dpkg_deb: Path, tmp_path: Path
) -> None:
    promised = replace(package(archives / "a_1_all.deb"), uri="mirror+file:/m.list/pool/a.deb")
    (archives / "a_1_all.deb").unlink()
    with pytest.raises(MirrorError, match=r"no a_1_all\.deb.*mirror\+file:/m\.list/pool/a\.deb"):
        unpack_all(archives, [promised], tmp_path, lambda done: None)


def test_dpkg_debs_words_are_passed_on(archives: Path, fake_dpkg_deb: Path, tmp_path: Path) -> None:
    fake_dpkg_deb.write_text("echo 'not a Debian format archive' >&2; exit 2\n")
    with pytest.raises(DamagedPackageError, match=r"a_1_all\.deb: not a Debian format archive"):
        unpack(archives / "a_1_all.deb", tmp_path)


def test_a_full_disk_is_told_from_a_damaged_package(
    archives: Path, fake_dpkg_deb: Path, tmp_path: Path
) -> None:
    fake_dpkg_deb.write_text("echo 'tar: x: Cannot write: No space left on device' >&2; exit 2\n")
    with pytest.raises(OSError, match="Cannot write") as caught:
        unpack(archives / "a_1_all.deb", tmp_path)
    assert caught.value.errno == errno.ENOSPC
