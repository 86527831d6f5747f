"""Files that the user names for an answer."""

import io
import os
from pathlib import Path

import pytest

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.streams import Output, write_file


def test_a_new_file_is_for_others_to_read_and_a_known_one_keeps_its_mode(tmp_path: Path) -> None:
    new, known = tmp_path / "new", tmp_path / "known"
    known.write_text("old and longer")
    known.chmod(0o640)
    mask = os.umask(0o022)
    try:
        write_file(new, "answer\n")
        write_file(known, "answer\n")
    finally:
        os.umask(mask)
    assert (new.read_text(), new.stat().st_mode & 0o777) == ("answer\n", 0o644)
    assert (known.read_text(), known.stat().st_mode & 0o777) == ("answer\n", 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["known", "new"]


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    write_file(link, "answer")
    assert link.is_symlink() and target.read_text() == "answer"


def test_what_cannot_be_written_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "page.html"
    file.write_text("old")

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(PlumbError, match=r"page.html: No space left on device\. Name") as caught:
        write_file(file, "new")
    assert caught.value.code == ExitCode.ENVIRONMENT
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(PlumbError, match="No space left"):
        write_file(Path("/dev/full"), "answer")
    assert Path("/dev/full").is_char_device()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, "answer")
    assert os.read(reader, 100) == b"answer" and pipe.is_fifo()
    os.close(reader)


def test_a_folder_and_a_file_in_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlumbError, match="Is a directory"):
        write_file(tmp_path, "answer")
    with pytest.raises(PlumbError, match="No such file or directory"):
        write_file(tmp_path / "no/file", "answer")
    assert not (tmp_path / "no").exists()


def test_a_label_and_a_colon_are_no_picture() -> None:
    file = io.StringIO()
    Output(file=file).print("[bold]no test matches //tools/pip:lock: or :train:[/bold]")
    assert file.getvalue() == "no test matches //tools/pip:lock: or :train:\n"
