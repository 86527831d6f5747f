"""What a server cannot do is named, by exit code and message, and never by a traceback."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from testing.serving.model_folder import LOADER, write_folder
from testing.serving.server import ServerError, running_server

KNOWN = ("--loader", LOADER, "--torch-threads", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "known")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ("--tensor-parallel", "2", "--expert-parallel", "3"),
            "--expert-parallel 3 does not",
        ),
        (
            ("--max-running", "64", "--step-tokens", "64"),
            "is 64, wanted more than 64",
        ),
        (("--tokenizer-workers", "0"), "--tokenizer-workers is 0, wanted 1 to 256"),
        (("--tensor-parallel", "1000"), "--tensor-parallel is 1000, wanted 1 to 64"),
        (("--torch-threads", "100000"), "--torch-threads is 100000, wanted 1 to 1024"),
        (("--max-running", "0"), "--max-running is 0, wanted 1 or more"),
        (("--host", ""), "--host is empty"),
        (("--model", ""), "argument --model: is empty"),
        (("--port", "70000"), "--port is 70000, wanted 0"),
        (("--loader", "nothing"), "--loader is 'nothing', wanted MODULE:FUNCTION"),
        (("--model", "/nowhere"), "--model /nowhere is no folder"),
    ],
)
def test_options_that_cannot_be_are_named(folder: Path, options: tuple[str], says: str) -> None:
    command = [sys.executable, "-m", "layers.serving", "--model", str(folder), *KNOWN, *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_folder_is_found_from_where_bazel_run_was_called(folder: Path) -> None:
    command = [sys.executable, "-m", "layers.serving", "--model", folder.name, "--port", "70000"]
    called_in = os.environ | {"BUILD_WORKING_DIRECTORY": str(folder.parent)}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=called_in
    )
    assert "--port is 70000" in ended.stderr, ended.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--loader", "testing.serving:nothing"), "--loader testing.serving:nothing cannot be"),
        (("--context-length", "1000"), "--context-length is 1000, and the model takes 512"),
        (("--kv-tokens", "64", "--context-length", "100"), "the cache holds a text of 64 tokens"),
        (("--device", "cuda", "--tensor-parallel", "2"), "needs as many GPUs"),
        (("--host", "203.0.113.1"), "cannot listen on 203.0.113.1 port 0: "),
        (("--loader", ":x"), "--loader :x cannot be imported: Empty module name"),
        (("--loader", "os:path"), "--loader os:path takes other arguments"),
        (("--loader", "os:system"), "--loader os:system takes other arguments"),
        (
            (
                *("--loader", "testing.serving.processes.bad_loaders:cannot_run_here"),
                *("--attention-backend", "triton", "--device", "cpu"),
            ),
            "no {'attention': 'triton'",
        ),
        (("--kv-tokens", "100000000000"), "--kv-tokens 100000000000 takes "),
    ],
)
def test_what_a_worker_or_the_system_refuses_ends_the_start(
    folder: Path, options: tuple[str], says: str
) -> None:
    with pytest.raises(ServerError) as error, running_server(folder, *KNOWN, *options):
        pass
    assert "ended with exit code 2" in str(error.value)
    assert says in str(error.value)
    assert "Traceback" not in str(error.value)
    # That is the server's own doing.
    assert "was killed" not in str(error.value)


def test_a_worker_that_dies_while_it_starts_ends_the_start(folder: Path) -> None:
    options = ("--loader", "testing.serving.processes.bad_loaders:dies")
    began = time.monotonic()
    with pytest.raises(ServerError) as error, running_server(folder, *options):
        pass
    assert "worker scheduler" in str(error.value) and "exit code 3" in str(error.value)
    assert "ended with exit code 1" in str(error.value)
    assert time.monotonic() - began < 60


def test_a_chat_template_that_is_no_jinja_is_named(tmp_path: Path) -> None:
    broken = write_folder(tmp_path / "broken", template="{% for %}")
    with pytest.raises(ServerError) as error, running_server(broken, *KNOWN):
        pass
    assert "the model's chat template is no Jinja" in str(error.value)
    assert "ended with exit code 2" in str(error.value) and "Traceback" not in str(error.value)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (models.BPE({"<eos>": 0, "a": 1}, []), "a prompt without any token"),
        (models.WordLevel({"<eos>": 0, "a": 1}), "the model's tokenizer refuses the text"),
    ],
    ids=["no token", "refused"],
)
def test_text_that_the_tokenizer_does_not_know_is_a_bad_request(
    tmp_path: Path, model: models.Model, says: str
) -> None:
    folder = write_folder(tmp_path / "known")
    Tokenizer(model).save(str(folder / "tokenizer.json"))
    body = {"model": "known", "prompt": "zzz", "max_tokens": 2}
    with running_server(folder, *KNOWN) as server, server.client() as client:
        answer = client.post("/v1/completions", json=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"] == "prompt"
        assert says in answer.json()["error"]["message"]
        assert client.post("/v1/completions", json={**body, "prompt": "a"}).status_code == 200
