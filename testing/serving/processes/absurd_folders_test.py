"""A folder that would keep a loader busy for ever, or break it, is refused at once."""

import json
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.oracles.models.configs import DEEPSEEK, LLAMA
from testing.serving.checkpoints import write_checkpoint

SECONDS = 10.0
NESTED = '{"a":' * 100_000 + "0" + "}" * 100_000
# The server, but that it may start no worker.
_NO_WORKERS = """
import sys
from layers.serving import main
main.start_all = lambda *given: sys.exit("workers were started")
sys.exit(main.main(sys.argv[1:]))
"""
WHOLE = ("-m", "layers.serving")
EARLY = ("-c", _NO_WORKERS)


def size(key: str, value: int, config: dict[str, object] = LLAMA) -> Callable[[Path], None]:
    """Writes config.json with that size."""

    def write(folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps({**config, key: value}))

    return write


def file(name: str, content: str | bytes) -> Callable[[Path], None]:
    """Writes that file."""

    def write(folder: Path) -> None:
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)

    return write


def refused(how: tuple[str, ...], folder: Path) -> str:
    """What the server says of a folder, which ends it with 2 and in time."""
    command = [sys.executable, *how, "--model", str(folder), "--torch-threads", "1"]
    began = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    took = time.monotonic() - began
    said = ended.stdout + ended.stderr
    assert ended.returncode == 2, said
    assert "Traceback" not in said and said.count("layers.serving: ") == 1, said
    assert took < SECONDS, f"{took:.1f} s: {said}"
    return said


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (size("num_hidden_layers", 2**63), "num_hidden_layers is 9223372036854775808, wanted 4096"),
        (size("num_hidden_layers", 4000), "num_hidden_layers is 4000, wanted 2, as the checkpoint"),
        (size("n_routed_experts", 9999, DEEPSEEK), "n_routed_experts is 9999, wanted 0, as the"),
        (size("vocab_size", 10**12), "vocab_size is 1000000000000, wanted 16777216 at most"),
        (file("config.json", NESTED), "config.json' has objects or lists nested too deeply"),
        (file("config.json", "9" * 5000), "config.json' is no JSON: Exceeds the limit (4300"),
        (file("generation_config.json", NESTED), "generation_config.json' has objects or lists"),
        (file("model.safetensors.index.json", NESTED), "index.json' has objects or lists nested"),
        (file("tokenizer_config.json", NESTED), "tokenizer_config.json is no JSON"),
        (file("tokenizer.json", NESTED), "tokenizer.json is no tokenizer"),
    ],
)
def test_what_no_loader_may_see_is_refused_before_a_worker_starts(
    change: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    folder = write_checkpoint(tmp_path / "model", LLAMA)
    change(folder)
    assert says in refused(EARLY, folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (size("vocab_size", 2**24), "has shape (258, 128), wanted (16777216, 128)"),
        (size("num_attention_heads", 7), "7 query heads cannot share 2 key-value heads"),
        (file("model.safetensors", struct.pack("<Q", 2**63)), "'model.safetensors' cannot be read"),
        (
            file("model.safetensors.index.json", '{"weight_map": {"x": "\\ud800"}}'),
            r"names '\ud800', wanted a file of its own folder",
        ),
    ],
)
def test_what_a_loader_sees_is_refused_in_time(
    change: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    folder = write_checkpoint(tmp_path / "model", LLAMA)
    change(folder)
    assert says in refused(WHOLE, folder)
