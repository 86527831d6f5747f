"""Trains one of the tiny checkpoints of //testing/e2e/checkpoints, reproducibly by its seed.

    python -m tools.tiny.main --model dense --output /tmp/dense

Minutes on two cores, a minute or two on a GPU, where the last digits are another's.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from testing.oracles.models.build import build
from tools.tiny.batched import batch_experts, restore_experts
from tools.tiny.calibration import largest_inputs
from tools.tiny.data import held_out_texts, training_texts
from tools.tiny.drafts import accept_lengths
from tools.tiny.evaluate import accuracy_by_task
from tools.tiny.mxfp4 import add_rounding, keep_rounded
from tools.tiny.save import rounded_to_bf16, save, write_json
from tools.tiny.shapes import SHAPES
from tools.tiny.tokenizer import train_tokenizer
from tools.tiny.train import Settings, train

_TOKENIZER_SEED = 1
_HELD_OUT_SEED = 1_000_003
_ROUNDED_FROM = 0.6
_BALANCE_RATE = 1e-3
_DRAFTED = 128
_CALIBRATED = 2048


def train_checkpoint(
    name: str, settings: Settings, device: str, folder: Path, *, texts: int, held_out: int
) -> Mapping[str, Any]:
    """Trains, rounds to bf16, evaluates, writes the folder; returns what training.json holds."""
    began = time.perf_counter()
    tokenizer = train_tokenizer(_TOKENIZER_SEED)
    training = training_texts(tokenizer, settings.seed, texts).to(device)
    model: Any = build(SHAPES[name])
    model.initialise(settings.seed)
    model.to(device)
    if device.startswith("cuda"):
        batch_experts(model)
    course = train(model, training, settings, _each_step(model, settings.steps), _log(name))
    keep_rounded(model)
    rounded_to_bf16(model)
    restore_experts(model)
    texts_held_out = held_out_texts(tokenizer, _HELD_OUT_SEED, held_out).to(device)
    record: dict[str, Any] = {
        "accuracy": accuracy_by_task(model, texts_held_out),
        "batch": settings.batch,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
        "held_out": held_out,
        "learning_rate": settings.learning_rate,
        "loss": course.loss,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(time.perf_counter() - began),
        "seed": settings.seed,
        "steps": settings.steps,
        "texts": texts,
        "torch": torch.__version__,
    }
    if not math.isnan(course.draft_loss):
        some = texts_held_out.rows(slice(0, _DRAFTED))
        record["draft_loss"] = course.draft_loss
        record["accept_length"] = {
            str(k): fmean(n for lengths in accept_lengths(model, some, k) for n in lengths)
            for k in (1, 2, 3)
        }
    save(model, SHAPES[name], tokenizer, record, folder)
    calibrated = largest_inputs(model, training.rows(slice(0, _CALIBRATED)))
    write_json(folder / "calibration.json", calibrated)
    return record


def _each_step(model: torch.nn.Module, steps: int) -> Callable[[int], None]:
    rounded = add_rounding(model)
    sparse = [module for module in model.modules() if hasattr(module, "balance")]

    def after(step: int) -> None:
        for module in sparse:
            module.balance(_BALANCE_RATE)
        for weight in rounded:
            weight.enabled = step >= _ROUNDED_FROM * steps

    return after


def _log(name: str) -> Callable[[str], None]:
    return lambda line: print(f"{name}: {line}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(SHAPES), required=True)
    parser.add_argument("--output", type=Path, required=True, help="the folder to write")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=128, help="texts a step")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--texts", type=int, default=100_000, help="different ones")
    parser.add_argument("--held-out", type=int, default=4096, help="texts to evaluate on")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    settings = Settings(options.steps, options.batch, options.seed, options.learning_rate)
    record = train_checkpoint(
        options.model,
        settings,
        options.device,
        options.output,
        texts=options.texts,
        held_out=options.held_out,
    )
    print(f"{options.model}: {record}", flush=True)


if __name__ == "__main__":
    main()
