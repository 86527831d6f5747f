"""The death of any worker ends the server with a message and exit 1, and never hangs a client."""

import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest

from testing.serving.model_folder import LOADER, write_folder
from testing.serving.server import running_server

OPTIONS = ("--loader", LOADER, "--torch-threads", "1", "--tokenizer-workers", "2")
TOKENS = 8000
WORKERS = ["tokenizer-1", "detokenizer-0", "scheduler", "rank-1"]


@pytest.mark.parametrize("name", WORKERS)
def test_a_killed_worker_is_reported_and_ends_everything(name: str, tmp_path: Path) -> None:
    # Texts so long that none is done before the worker dies, however busy the machine is.
    folder = write_folder(tmp_path / "known", max_position=TOKENS + 100)
    options = (*OPTIONS, *(("--tensor-parallel", "2") if name == "rank-1" else ()))
    seen: list[str] = []

    def ask() -> None:
        body = {
            "model": "known",
            "prompt": "a",
            "max_tokens": TOKENS,
            "ignore_eos": True,
            "stream": True,
        }
        try:
            with server.client() as client:
                seen.append(client.post("/v1/completions", json=body).text)
        except httpx.TransportError as error:
            seen.append(repr(error))

    with running_server(folder, *options, expect_exit=1, stop=False) as server:
        clients = [threading.Thread(target=ask) for _ in range(3)]
        for client in clients:
            client.start()
        server.wait_for("plumbline_requests_in_flight", 3)
        pid = server.workers()[name].pid
        psutil.Process(pid).kill()
        for client in clients:
            client.join(30)
        assert not any(client.is_alive() for client in clients), "a client still waits"
        assert server.process.wait(30) == 1
        says = f"worker {name} (pid {pid}) was killed by SIGKILL"
        assert f"{says}; stopping the server." in server.output()
    assert len(seen) == 3
    # A stream that had begun ends with the error, another is the error.
    for text in seen:
        assert says in text and "[DONE]" not in text, text


def test_a_worker_that_dies_while_the_server_ends_is_reported_too(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "known", max_position=4096)
    body = {"model": "known", "prompt": "a", "max_tokens": 4000, "n": 8, "ignore_eos": True}
    statuses: list[int] = []

    def ask() -> None:
        with server.client() as client:
            statuses.append(client.post("/v1/completions", json=body).status_code)

    with running_server(folder, *OPTIONS, expect_exit=1, stop=False) as server:
        client = threading.Thread(target=ask)
        client.start()
        server.wait_for("plumbline_requests_in_flight", 8)
        worker = psutil.Process(server.workers()["scheduler"].pid)
        # It cannot be done in time: the drain waits for it.
        worker.suspend()
        server.process.terminate()
        time.sleep(0.5)
        worker.kill()
        client.join(30)
        assert not client.is_alive() and server.process.wait(30) == 1
        assert f"worker scheduler (pid {worker.pid}) was killed by SIGKILL" in server.output()
    assert statuses == [500]
