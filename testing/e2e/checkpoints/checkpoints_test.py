"""What is committed is whole, small enough, and as good as its records say."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from testing.e2e.checkpoints.folders import BASES, CHECKPOINTS, digests, folder, measured, split
from testing.e2e.tasks.problems import TASKS

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", BASES)
def test_training_is_recorded_and_sums_are_right(name: str) -> None:
    record = json.loads((HERE / name / "training.json").read_text())
    assert {"seed", "loss", "accuracy", "steps", "batch", "learning_rate"} <= set(record)
    assert record["accuracy"]["addition"] >= 0.98
    assert set(record["accuracy"]) == set(TASKS)


def test_all_bases_together_are_small() -> None:
    files = [path for name in BASES for path in (HERE / name).iterdir()]
    assert sum(path.stat().st_size for path in files) < 12_000_000


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_each_was_measured_and_has_not_changed_since(name: str) -> None:
    found = measured(name)
    right = found["right"]
    assert set(right) == set(TASKS)
    assert all(of >= 500 for _, of in right.values())
    assert found["sha256"] == digests(name), "run python -m tools.tiny.measure"
    if name.startswith("mla_moe_mtp"):
        assert found["drafts"]["3"]["accept_length"] > 2


def test_the_tokenizer_is_that_of_all() -> None:
    texts = {(folder(name) / "tokenizer.json").read_text() for name in BASES}
    assert len(texts) == 1
    assert Tokenizer.from_str(texts.pop()).get_vocab_size() == 512


def test_names_of_variants_are_split() -> None:
    assert split("mla_moe_mtp_int8_channel") == ("mla_moe_mtp", "int8_channel")
    assert split("dense") == ("dense", "")
    with pytest.raises(ValueError, match="'tall' is unknown; bases are dense, gpt_oss"):
        split("tall")
