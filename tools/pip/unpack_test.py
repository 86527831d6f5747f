import hashlib
import os
import stat
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

from tools.pip import pack, unpack


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A packed wheel of three files; wheel.pack.sha256 lies beside it."""
    folder = tmp_path / "site-packages"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "__init__.py").write_text("VALUE = 1\n")
    (folder / "package" / "data with blank").write_bytes(bytes(range(256)) * 9000)
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o755)
    packed = tmp_path / "wheel.pack"
    assert pack.main([str(folder), str(packed), f"{packed}.sha256"]) == 0
    return packed


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_is_unpacked_is_what_was_packed(wheel: Path, tmp_path: Path) -> None:
    folder = unpack.unpack(wheel, tmp_path)

    assert contents(folder) == contents(tmp_path / "site-packages")
    assert folder.name == Path(f"{wheel}.sha256").read_text().strip()
    assert os.access(folder / "tool", os.X_OK)
    assert not os.access(folder / "package" / "__init__.py", os.X_OK)


def test_the_same_content_gives_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "site-packages").rglob("*"):
        os.utime(path, (1, 1))
    again = tmp_path / "again.pack"

    pack.pack(tmp_path / "site-packages", again)

    assert again.read_bytes() == wheel.read_bytes()


def test_nothing_in_the_cache_is_writable(wheel: Path, tmp_path: Path) -> None:
    folder = unpack.unpack(wheel, tmp_path)

    for path in (folder, *folder.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o222, path


def test_a_wheel_is_unpacked_once_also_by_many_at_once(wheel: Path, tmp_path: Path) -> None:
    seen: list[int] = []

    def start() -> None:
        seen.append((unpack.unpack(wheel, tmp_path) / "tool").stat().st_ino)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len(set(seen)) == 1
    assert not list(tmp_path.glob("*.new.*"))


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_pack_is_refused_and_leaves_nothing(
    wheel: Path, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = wheel.read_bytes()
    wheel.write_bytes(
        data[:-20000] if damage == "cut" else data.replace(b"VALUE = 1", b"VALUE = 2")
    )
    cache = tmp_path / "cache"

    assert unpack.main([str(cache), "boot", str(wheel)]) == 1

    assert "it came damaged" in capsys.readouterr().err
    assert [path.suffix for path in (cache / "boot").iterdir()] == [".lock"]


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", "a//b", "."])
def test_an_entry_outside_the_pack_is_refused(tmp_path: Path, name: str) -> None:
    packed = tmp_path / "wheel.pack"
    with tarfile.open(packed, "w") as archive:
        archive.addfile(tarfile.TarInfo(name))
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    Path(f"{packed}.sha256").write_text(digest)

    with pytest.raises(ValueError, match="is no file inside the pack"):
        unpack.unpack(packed, tmp_path)

    assert not (tmp_path / digest).exists()


def test_a_link_in_a_pack_is_refused(tmp_path: Path) -> None:
    packed = tmp_path / "wheel.pack"
    entry = tarfile.TarInfo("link")
    entry.type, entry.linkname = tarfile.SYMTYPE, "/etc"
    with tarfile.open(packed, "w") as archive:
        archive.addfile(entry)
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    Path(f"{packed}.sha256").write_text(digest)

    with pytest.raises(ValueError, match="is no file inside the pack"):
        unpack.unpack(packed, tmp_path)


def test_the_folder_of_the_cache_is_printed(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "new" / "cache"

    assert unpack.main([str(cache), "boot", str(wheel)]) == 0

    assert capsys.readouterr().out == f"{cache}/boot\n"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["file", "link", "others-write"])
def test_a_cache_that_others_may_have_filled_is_not_used(
    wheel: Path,
    tmp_path: Path,
    kind: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = tmp_path / "cache"
    if kind == "file":
        cache.touch()
    elif kind == "link":
        (tmp_path / "other").mkdir()
        cache.symlink_to("other")
    else:
        cache.mkdir()
        cache.chmod(0o777)
    (tmp_path / "own").mkdir()
    monkeypatch.setenv("TEST_TMPDIR", str(tmp_path / "own"))

    assert unpack.main([str(cache), "boot", str(wheel)]) == 0

    said = capsys.readouterr()
    assert said.out == f"{tmp_path}/own/wheels\n"
    assert "for this one test" in said.err


def test_what_no_test_has_used_for_two_weeks_goes(wheel: Path, tmp_path: Path) -> None:
    wheels = tmp_path / "cache" / "boot"
    wheels.mkdir(parents=True)
    folder = unpack.unpack(wheel, wheels)
    half = wheels / "0123.new.x"
    half.mkdir()

    unpack.forget_unused(tmp_path / "cache", time.time() + 13 * 86400)
    assert folder.is_dir()
    assert not half.exists()

    unpack.forget_unused(tmp_path / "cache", time.time() + 15 * 86400)
    assert not folder.exists()
    assert not list(wheels.glob("*.used"))


def test_it_needs_no_import_path(wheel: Path, tmp_path: Path) -> None:
    """start.sh calls it before the import path stands."""
    done = subprocess.run(
        [sys.executable, "-I", unpack.__file__, tmp_path / "cache", "boot", wheel],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )

    assert done.stdout == f"{tmp_path}/cache/boot\n"
