import hashlib
import os
from pathlib import Path

import pytest

from tools.plumb.pool.engine.disk import Disk


def stored(store: Path, content: bytes, name: bytes | None = None) -> Path:
    """An object of the store: its name is the digest of `name`, which the content may not be."""
    digest = hashlib.sha256(content if name is None else name).hexdigest()
    path = store / "cas/objects" / digest[:2] / digest[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_disk_with_room_is_no_trouble_and_a_full_one_is_named(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize

    assert Disk(tmp_path / "cache", free // 4).trouble() == ""
    assert f"the disk of {tmp_path} has " in Disk(tmp_path / "cache", 2 * free).trouble()


def test_a_disk_that_was_full_needs_more_room_than_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [50, 100, 299, 300, 100]
    names = ("f_bavail", "f_frsize")
    found = type("Found", (), dict.fromkeys(names, 1))
    monkeypatch.setattr(
        "tools.plumb.pool.engine.disk.os.statvfs",
        lambda folder: type("Left", (found,), {"f_bavail": left.pop(0)}),
    )
    disk = Disk(tmp_path, 100)

    assert [bool(disk.trouble()) for _ in range(5)] == [True, True, True, False, False]


def test_what_is_not_what_its_name_says_goes_and_the_rest_stays(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    whole, empty = stored(tmp_path, b"whole"), stored(tmp_path, b"")
    cut, lost = stored(tmp_path, b"cu", b"cut"), stored(tmp_path, b"", b"lost")
    old = stored(tmp_path, b"ol", b"old")
    os.utime(old, (0, 0))
    # An empty result of an action would say that a test passed.
    result = tmp_path / "actioncache/objects/ab/cd"
    scratch = tmp_path / "cas/tmp/half"
    for path in (result, scratch):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")

    assert disk.mend() == 4

    kept = [path for path in (whole, empty, cut, lost, old, result, scratch) if path.exists()]
    assert kept == [whole, empty, old]
