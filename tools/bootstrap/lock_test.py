import subprocess
import sys
import threading
import time
from pathlib import Path

from tools.bootstrap.lock import exclusive

HOLDER = """
import sys, time
from pathlib import Path
from tools.bootstrap.lock import exclusive
with exclusive(Path(sys.argv[1]), print):
    print("held", flush=True)
    time.sleep(60)
"""


def hold(lock: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_free_lock_is_taken_without_a_word(tmp_path: Path) -> None:
    said: list[str] = []
    with exclusive(tmp_path / "lock", said.append):
        pass
    with exclusive(tmp_path / "lock", said.append):
        pass
    assert said == []


def test_the_second_waits_and_says_for_whom(tmp_path: Path) -> None:
    holder = hold(tmp_path / "lock")
    said: list[str] = []
    entered = threading.Event()

    def second() -> None:
        with exclusive(tmp_path / "lock", said.append):
            entered.set()

    thread = threading.Thread(target=second)
    thread.start()
    try:
        deadline = time.monotonic() + 10
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
        assert said == [
            f"Another bootstrap (process {holder.pid}) is at work in {tmp_path}: waiting."
        ]
        assert not entered.is_set()
    finally:
        # Killed, not ended politely: the lock must not outlive its holder in any case.
        holder.kill()
        holder.wait()
        thread.join(10)
    assert entered.is_set()
