"""Measures what each tiny checkpoint achieves, in the reference's arithmetic, for the thresholds.

    python -m tools.tiny.measure

writes testing/e2e/checkpoints/accuracy.json: right answers by task among many held-out problems,
and how many drafts a verification accepts. The layers that smokes test take no part in it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from testing.e2e.checkpoints.folders import CHECKPOINTS, digests, folder
from testing.e2e.checkpoints.reference import load_reference
from testing.e2e.statistics.bounds import design_effect
from testing.e2e.tasks.problems import TASKS
from testing.e2e.tasks.unsure import unsure_problems
from tools.tiny.data import held_out_texts
from tools.tiny.drafts import chain_hits, lengths_of
from tools.tiny.evaluate import right_answers
from tools.tiny.sameness import same_texts
from tools.tiny.save import write_json

_SEED = 2_000_003
_DRAFTS = (1, 2, 3)
_MOST = 48
_SPECULATED = "mla_moe_mtp_int8_channel"
"""What mla_int8_mtp_smoke serves, which alone compares texts."""


def measure(name: str, texts: int, drafted: int, unsure: int) -> dict[str, Any]:
    """What accuracy.json holds of it.

    {"sha256": of a base's files, "right": {task: [right, of]}}; of one that drafts "drafts" by
    their number; of the one that is served with drafts "unsure": [same, of].


    texts: to answer; drafted: of these, those of which drafts are followed; unsure: prompts whose
        greedy text is looked at.
    """
    place = folder(name)
    model = load_reference(place)
    held_out = held_out_texts(Tokenizer.from_file(str(place / "tokenizer.json")), _SEED, texts)
    right = right_answers(model, held_out)
    found: dict[str, Any] = {
        "sha256": digests(name),
        "right": {
            task: [int(right[held_out.tasks == i].sum()), int((held_out.tasks == i).sum())]
            for i, task in enumerate(TASKS)
        },
    }
    if model.config.get("num_nextn_predict_layers"):
        some = held_out.rows(right.nonzero()[:drafted, 0])
        hits = chain_hits(model, some, max(_DRAFTS))
        if name == _SPECULATED:
            found["unsure"] = _same(place, unsure)
        found["drafts"] = {str(k): _drafts(lengths_of(hits, some, k), k) for k in _DRAFTS}
    return found


def _same(place: Path, count: int) -> list[int]:
    """Greedy texts that stay as they are when values are rounded otherwise, and all."""
    model, exact = load_reference(place), load_reference(place, rounded=False)
    tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    prompts = [tokenizer.encode(p.prompt).ids for p in unsure_problems(count, _SEED)]
    same = same_texts(model, exact, prompts, _MOST, model.config["eos_token_id"])
    return [int(same.sum()), count]


def _drafts(answers: list[list[int]], draft_tokens: int) -> dict[str, float]:
    """Of the verifications of chains of K drafts: their number, and what they accepted."""
    verified = [float(len(lengths)) for lengths in answers]
    # In units of a whole chain, so that each verification is a trial between 0 and 1.
    accepted = [sum(n - 1 for n in lengths) / draft_tokens for lengths in answers]
    return {
        "accept_length": 1 + draft_tokens * sum(accepted) / sum(verified),
        "design_effect": design_effect(accepted, verified),
        "hits": sum(accepted),
        "trials": sum(verified),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path("testing/e2e/checkpoints/accuracy.json")
    parser.add_argument("--output", type=Path, default=default)
    parser.add_argument("--texts", type=int, default=2048)
    parser.add_argument("--drafted", type=int, default=400)
    parser.add_argument("--unsure", type=int, default=384)
    parser.add_argument("--only", nargs="+", choices=CHECKPOINTS, default=CHECKPOINTS)
    options = parser.parse_args(arguments)
    found = json.loads(options.output.read_text()) if options.output.exists() else {}
    with torch.inference_mode():
        for name in options.only:
            found[name] = measure(name, options.texts, options.drafted, options.unsure)
            print(f"{name}: {found[name]}", flush=True)
            write_json(options.output, found)


if __name__ == "__main__":
    main()
