"""Right attention layers by the hundred, from fresh seeds: none of them may raise an alarm."""

from __future__ import annotations

import numpy as np

from testing.harness.attention.case import TREE, AttentionCase, Call, on_backend
from testing.harness.attention.examine import examine
from testing.harness.attention.layer import build
from testing.harness.attention.pages import ORDERS
from testing.harness.device import device
from testing.strength.null_runs import Alarm, seeds


def random_case(rng: np.random.Generator, windowed: bool, backend: str) -> AttentionCase:
    """A small layer of any kind."""
    kv_heads, group = int(rng.choice([1, 2, 3])), int(rng.choice([1, 2, 4, 8]))
    case = AttentionCase(
        kv_heads * group,
        kv_heads,
        int(rng.choice([64, 128])),
        window=int(rng.integers(1, 80)) if windowed else None,
        soft_cap=float(rng.choice([0.0, 0.0, 2.0, 30.0])),
        sinks=bool(rng.integers(2)),
        dtype=str(rng.choice(["bfloat16", "float16"])),
        fp8=bool(rng.random() < 0.3),
        scales=(float(rng.uniform(0.01, 0.5)), float(rng.uniform(0.01, 0.5))),
        page_size=int(rng.choice([1, 16, 32, 64])),
    )
    return on_backend(case, backend)


def random_call(rng: np.random.Generator) -> Call:
    """A few requests of any mode and length up to some hundred."""
    count = int(rng.integers(1, 6))
    prefixes = [int(2 ** rng.uniform(0, 7.5)) - 1 for _ in range(count)]
    order, split = str(rng.choice(ORDERS)), bool(rng.integers(2))
    mode = str(rng.choice(["extend", "decode", "draft"]))
    if mode == "draft":
        parents = TREE if rng.integers(2) else None
        new = len(TREE) if parents else int(rng.integers(1, 9))
        requests = tuple((prefix, new) for prefix in prefixes)
        return Call(mode, requests, parents, order=order, split=split)
    news = [1 if mode == "decode" else int(2 ** rng.uniform(0, 5.5)) for _ in prefixes]
    requests = tuple(zip(prefixes, news, strict=True))
    shared = int(rng.integers(3)) if count > 1 else 0
    return Call(mode, requests, order=order, shared_pages=shared, split=split)


def null_run(seed: int, windowed: bool, backend: str) -> Alarm | None:
    """A right layer and two calls, from one seed."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, windowed, backend)
    calls = [random_call(rng), random_call(rng)]
    verdict = examine(build(case, rng, device()), calls, rng, recorded=False)
    return None if verdict.ok else Alarm(seed, verdict)


def require_silence(count: int, windowed: bool, backend: str) -> None:
    """Raise AssertionError with the seed of each alarm that `count` right layers raise."""
    tried = seeds(count)
    print(f"{len(tried)} right layers, first seed {tried[0]}")
    alarms = [a for seed in tried if (a := null_run(seed, windowed, backend))]
    assert not alarms, f"{len(alarms)} of {len(tried)} right layers raised an alarm:\n" + "\n".join(
        map(str, alarms)
    )
