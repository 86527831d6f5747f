"""A server's start and end: what it prints, and that it leaves nothing behind."""

import signal
from pathlib import Path

import psutil
import pytest

from testing.serving.model_folder import LOADER, write_folder
from testing.serving.server import running_server

KNOWN = ("--loader", LOADER, "--torch-threads", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "known")


def test_many_workers_start_serve_and_end(folder: Path) -> None:
    """The helper asserts exit 0, and that no process and no socket is left."""
    options = (*KNOWN, "--tokenizer-workers", "8", "--detokenizer-workers", "4")
    with running_server(folder, *options) as server, server.client() as client:
        assert server.model == "known"
        assert client.get("/health").json() == {"status": "ok"}
        assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["known"]
        names = [
            "scheduler",
            *[f"tokenizer-{number}" for number in range(8)],
            *[f"detokenizer-{number}" for number in range(4)],
        ]
        workers = server.workers()
        assert sorted(workers) == sorted(names)
        for name, worker in workers.items():
            loaded = {Path(m.path).name for m in worker.memory_maps() if "torch" in m.path}
            assert bool(loaded) == (name == "scheduler"), f"{name} has loaded {loaded}"
        assert list(server.scratch.iterdir()), "sockets are somewhere while it runs"
        process = server.process
    assert process.returncode == 0


def test_ctrl_c_ends_it_as_well_though_every_process_of_the_terminal_gets_it(folder: Path) -> None:
    with running_server(folder, *KNOWN) as server:
        children = list(server.workers().values())
        for process in [*children, psutil.Process(server.process.pid)]:
            process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 0
        assert "Traceback" not in server.output()


def test_without_its_server_no_worker_lives_on(folder: Path) -> None:
    with running_server(folder, *KNOWN, expect_exit=-9, stop=False, leaves_files=True) as server:
        workers = list(server.workers().values())
        server.process.kill()
        _, alive = psutil.wait_procs(workers, timeout=20)
        assert not alive
