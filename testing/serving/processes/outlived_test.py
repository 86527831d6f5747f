"""Servers of tests: a test that fails says how its server was, and none outlives its test."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from testing.serving.model_folder import LOADER, write_folder
from testing.serving.server import Server, running_server

KNOWN = ("--loader", LOADER, "--torch-threads", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "known")


def test_a_block_that_fails_says_how_the_server_was(folder: Path) -> None:
    def fail(and_then: Any) -> str:
        with (
            pytest.raises(RuntimeError, match="of the block") as raised,
            running_server(folder, *KNOWN) as server,
        ):
            and_then(server)
            raise RuntimeError("of the block")
        return "\n".join(raised.value.__notes__)

    def killed(server: Server) -> None:
        server.process.kill()
        server.process.wait()

    note = fail(lambda _: None)
    assert "The server still ran (pid " in note and "Serving known at http" in note
    note = fail(killed)
    assert "The server had been killed by SIGKILL. It printed:\nServing known at http" in note


_A_TEST = """
import sys, time
from pathlib import Path
from testing.serving.server import running_server
with running_server(Path(sys.argv[1]), *sys.argv[2:]) as server:
    print(server.process.pid, *[worker.pid for worker in server.workers().values()], flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_test_that_is_ended_leaves_no_server(folder: Path, number: int) -> None:
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", _A_TEST, str(folder), *KNOWN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as test:
        try:
            assert test.stdout is not None
            family = [psutil.Process(int(pid)) for pid in test.stdout.readline().split()]
            assert len(family) == 4
            test.send_signal(number)
            _, alive = psutil.wait_procs(family, timeout=30)
        finally:
            test.kill()
    for process in alive:
        process.kill()
    assert not alive
