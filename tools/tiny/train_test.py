"""A few steps of each model's training write a whole checkpoint, twice the same."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tools.tiny.main import main


def _train(name: str, folder: Path) -> dict[str, torch.Tensor]:
    main(
        f"--model {name} --output {folder} --seed 3 --steps 6 --batch 4 --texts 64 --held-out 32 "
        "--device cpu".split()
    )
    written: dict[str, torch.Tensor] = load_file(folder / "model.safetensors")
    return written


@pytest.mark.parametrize("name", ["dense", "mla_moe_mtp", "gpt_oss"])
def test_training_is_reproducible_and_recorded(name: str, tmp_path: Path) -> None:
    first, again = (_train(name, tmp_path / folder) for folder in ("first", "again"))
    assert first.keys() == again.keys()
    assert all(torch.equal(tensor, again[key]) for key, tensor in first.items())
    record = json.loads((tmp_path / "first" / "training.json").read_text())
    assert record["seed"] == 3 and record["held_out"] == 32
    assert set(record["accuracy"]) == {"addition", "capital", "copying", "sorting"}
    assert ("accept_length" in record) == (name == "mla_moe_mtp")
    files = {path.name for path in (tmp_path / "first").iterdir()}
    assert {"config.json", "tokenizer.json", "calibration.json"} <= files
