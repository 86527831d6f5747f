from __future__ import annotations

import os
import signal
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.plumb import bazel, interrupt, run
from tools.plumb.errors import Terminated
from tools.plumb.trees.git_command import run_git, start_git

NUMBERS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]


class Thing:
    """Something that a weak reference may point to."""


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number, _ in NUMBERS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt.install()
    yield
    interrupt.forget()
    for number, handler in before.items():
        signal.signal(number, handler)


def lose(number: int, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Gets the signal in a weak reference's callback; what Python then could not raise."""
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: lost.append(told.exc_type))
    thing = Thing()
    kept = weakref.ref(thing, lambda _: os.kill(os.getpid(), number))
    del thing
    assert kept() is None
    return lost


@pytest.mark.parametrize(("number", "raised"), NUMBERS)
def test_it_is_raised_at_once(number: int, raised: type[BaseException]) -> None:
    with pytest.raises(raised):
        os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "raised"), NUMBERS)
def test_one_that_a_callback_loses_is_met_before_the_next_process(
    number: int, raised: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lose(number, monkeypatch) == [raised], "else nothing is shown here"

    made = tmp_path / "made"
    entry = tmp_path / "bazel"
    entry.write_text(f"#!/bin/sh\ntouch {made}\n")
    entry.chmod(0o755)
    with pytest.raises(raised):
        bazel.Bazel(entry).graph(tmp_path, lambda text: None)
    with pytest.raises(raised):
        run_git(tmp_path, "init")
    with pytest.raises(raised):
        start_git(tmp_path, "init")
    with pytest.raises(raised):
        run._wait([str(entry)], tmp_path)
    assert not made.exists() and not (tmp_path / ".git").exists()


def test_one_that_was_met_stands_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(signal.SIGINT, monkeypatch)
    interrupt.forget()

    assert run_git(tmp_path, "--version").returncode == 0


def test_an_ignored_interrupt_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupt.install()

    os.kill(os.getpid(), signal.SIGINT)
    interrupt.check()
