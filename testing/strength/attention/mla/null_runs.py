"""Right MLA layers by the hundred, from fresh seeds: none of them may raise an alarm."""

from __future__ import annotations

import numpy as np

from testing.attention.mla.call import random_call
from testing.attention.mla.cases import TREE
from testing.attention.mla.examine import examine
from testing.attention.mla.layer import UNQUANTISED, UNQUANTISED_FP16, MlaCase, build
from testing.attention.mla.methods import QUANTISED
from testing.harness.attention.pages import ORDERS
from testing.harness.device import device
from testing.oracles.attention.mla.mla import MlaShape
from testing.oracles.attention.rope.rope import Rope, Yarn
from testing.strength.null_runs import Alarm, seeds

_SCALINGS = (None, None, Yarn(40.0, 4096, mscale=1.0, mscale_all_dim=0.5))


def random_case(rng: np.random.Generator) -> MlaCase:
    """A small layer of any sizes, mode, pages, path, weights and cache."""
    fp16 = bool(rng.random() < 0.25)
    method = UNQUANTISED_FP16 if fp16 else UNQUANTISED
    quantised = not fp16 and bool(rng.random() < 0.4)
    if quantised:
        method = QUANTISED[int(rng.integers(len(QUANTISED)))]
    rope = Rope(
        int(rng.choice([8, 16, 32])),
        style=str(rng.choice(["gptj", "gptj", "neox"])),
        scaling=_SCALINGS[int(rng.integers(len(_SCALINGS)))],
    )
    shape = MlaShape(
        heads=int(rng.integers(1, 6)),
        nope=16 * int(rng.integers(1, 5)),
        v=16 * int(rng.integers(1, 5)),
        rank=128 if quantised else 32 * int(rng.integers(1, 6)),
        rope=rope,
    )
    mode = str(rng.choice(["extend", "extend", "decode", "draft"]))
    queries, lengths = _lengths(rng, mode)
    scale = float(rng.choice([0.01, 0.02, 0.5])) if rng.random() < 0.2 else None
    return MlaCase(
        mode,
        queries,
        lengths,
        page_size=int(rng.choice([1, 16, 32, 64])),
        order=str(rng.choice(ORDERS)),
        tree=TREE if mode == "draft" and queries[0] == len(TREE) else None,
        shape=shape,
        method=method,
        dtype="float16" if fp16 else "bfloat16",
        path=str(rng.choice(["auto", "auto", "absorbed"])),
        fp8_scale=scale,
    )


def _lengths(rng: np.random.Generator, mode: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    count = int(rng.integers(1, 5))
    drafts = int(rng.integers(1, 6))
    queries = {"decode": 1, "draft": drafts}.get(mode)
    prompts = mode == "extend" and bool(rng.integers(2))
    found = []
    for _ in range(count):
        new = queries or int(2 ** rng.uniform(0, 5.5))
        found.append((new, new + (0 if prompts else int(2 ** rng.uniform(0, 7)) - 1)))
    return tuple(q for q, _ in found), tuple(k for _, k in found)


def null_run(seed: int) -> Alarm | None:
    """A right layer and a call of it, from one seed."""
    rng = np.random.default_rng(seed)
    case = random_case(rng)
    checkpoint = case.checkpoint(rng)
    loaded = build(case, checkpoint, device())
    verdict = examine(loaded, random_call(case, checkpoint, rng), recorded=False)
    return None if verdict.ok else Alarm(seed, verdict)


def require_silence(count: int) -> None:
    """Raise AssertionError with the seed of each alarm that `count` right layers raise."""
    tried = seeds(count)
    print(f"{len(tried)} right MLA layers, first seed {tried[0]}")
    alarms = [alarm for seed in tried if (alarm := null_run(seed))]
    assert not alarms, f"{len(alarms)} of {len(tried)} right layers raised an alarm:\n" + "\n".join(
        map(str, alarms)
    )
