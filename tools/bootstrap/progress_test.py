import io

import pytest

from tools.bootstrap.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("tools.bootstrap.progress.time.monotonic", lambda: now[0])
    return now


def test_a_terminal_sees_a_bar_that_fills(clock: list[float]) -> None:
    stream = Terminal()
    bar = Progress(stream)
    bar.start("Download", 200_000_000, "MB")
    clock[0] += 1
    bar.update(50_000_000)
    drawn = stream.getvalue().split("\r\033[K")
    assert drawn[1] == f"Download [{'.' * 28}] 0/200 MB"
    assert drawn[2] == f"Download [{'#' * 7}{'.' * 21}] 50/200 MB"


def test_a_bar_never_passes_its_end(clock: list[float]) -> None:
    stream = Terminal()
    bar = Progress(stream)
    bar.start("Download", 2_000_000, "MB")
    clock[0] += 1
    bar.update(3_000_000)
    assert stream.getvalue().endswith(f"[{'#' * 28}] 2/2 MB")


def test_redrawing_is_rare_enough_to_read(clock: list[float]) -> None:
    stream = Terminal()
    bar = Progress(stream)
    bar.start("Unpack", 10)
    for done in range(9):
        clock[0] += 0.01
        bar.update(done)
    assert stream.getvalue().count("\r") == 1


def test_elsewhere_few_plain_lines_and_no_control_characters(clock: list[float]) -> None:
    stream = io.StringIO()
    bar = Progress(stream)
    bar.start("Unpack", 300)
    for done in range(0, 250, 10):
        clock[0] += 1
        bar.update(done)
    bar.finish()
    assert stream.getvalue().splitlines() == [
        "Unpack: 90/300",
        "Unpack: 190/300",
        "Unpack: done in 25.0 s, 300",
    ]


def test_a_stage_of_unknown_length_shows_seconds(clock: list[float]) -> None:
    stream = Terminal()
    bar = Progress(stream)
    bar.start("Index")
    clock[0] += 3
    bar.update()
    bar.finish()
    assert stream.getvalue().endswith("Index: 3 s\r\033[KIndex: done in 3.0 s\n")


def test_a_note_stands_on_a_line_of_its_own(clock: list[float]) -> None:
    stream = Terminal()
    bar = Progress(stream)
    bar.start("Index")
    bar.note("waiting")
    assert stream.getvalue().endswith("\r\033[Kwaiting\n")
