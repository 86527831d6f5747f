import os
from pathlib import Path

import pytest

from testing.harness import kernel_cache


def test_tests_of_one_user_share_a_folder_that_only_they_can_write_in(tmp_path: Path) -> None:
    found = kernel_cache.folder({"TEST_TMPDIR": "/own"}, tmp_path)

    assert found == kernel_cache.folder({"TEST_TMPDIR": "/another"}, tmp_path)
    assert found.parent == tmp_path
    assert found.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_named_is_taken(tmp_path: Path) -> None:
    named = tmp_path / "deep" / "kernels"
    environ = {"TEST_TMPDIR": "/own", "PLUMBLINE_KERNEL_CACHE": str(named)}

    assert kernel_cache.folder(environ, tmp_path) == named
    assert named.is_dir()


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("kernels", "is no absolute path"),
        ("/dev/null/kernels", r"cannot be made \(Not a directory\)"),
        ("/dev/null", r"cannot be made \(File exists\)"),
    ],
)
def test_a_folder_that_cannot_be_written_in(named: str, reason: str, tmp_path: Path) -> None:
    environ = {"TEST_TMPDIR": "/own", "PLUMBLINE_KERNEL_CACHE": named}

    with pytest.raises(ValueError, match=f"PLUMBLINE_KERNEL_CACHE is '{named}', which {reason}"):
        kernel_cache.folder(environ, tmp_path)


def test_without_shared_memory_each_test_has_its_own() -> None:
    assert kernel_cache.folder({"TEST_TMPDIR": "/own"}, Path("/nowhere")) == Path("/own")


def test_a_folder_that_others_can_write_in_is_not_trusted(tmp_path: Path) -> None:
    common = tmp_path / f"plumbline-kernels-{os.getuid()}"
    common.mkdir()
    common.chmod(0o777)

    assert kernel_cache.folder({"TEST_TMPDIR": "/own"}, tmp_path) == Path("/own")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"plumbline-kernels-{os.getuid()}").symlink_to(tmp_path / "elsewhere")

    assert kernel_cache.folder({"TEST_TMPDIR": "/own"}, tmp_path) == Path("/own")
