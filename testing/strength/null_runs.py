"""Right layers by the hundred, from fresh seeds: none of them may raise an alarm."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from testing.harness.device import device
from testing.harness.linear import LinearCase, Method, build
from testing.harness.linear_probes import examine
from testing.harness.verdict import Verdict

SEED_VARIABLE = "PLUMBLINE_SEED"
BATCHES, BATCH = 8, 125
_DTYPES = ("bfloat16", "bfloat16", "float16", "float32")


@dataclass(frozen=True)
class Alarm:
    """A right layer that the checks called wrong."""

    seed: int
    verdict: Verdict

    def __str__(self) -> str:
        repeat = f"--test_env={SEED_VARIABLE}={self.seed}"
        return f"seed {self.seed} (repeat with {repeat}):\n{self.verdict}"


def seeds(count: int) -> list[int]:
    """Seeds that no run had before; the one that PLUMBLINE_SEED names, if it names one.

    Raises:
        ValueError: it names none.
    """
    asked = os.environ.get(SEED_VARIABLE)
    if asked and not (asked.isascii() and asked.isdecimal()):
        raise ValueError(
            f"{SEED_VARIABLE} is '{asked}', wanted a whole number from 0: the seed that an alarm "
            f"printed."
        )
    return [int(asked)] if asked else [secrets.randbits(48) for _ in range(count)]


def random_case(
    rng: np.random.Generator,
    method: Method,
    k_unit: int = 16,
    n_unit: int = 16,
    backend: str | None = None,
) -> LinearCase:
    """A small layer of any kind, shape, dtype and with or without a bias.

    k_unit, n_unit: K, and N of the last shard, are multiples of them; other shards fill blocks.
    backend: None leaves the choice to the layer.
    """
    kind = str(rng.choice(["column", "row", "replicated", "merged", "qkv"]))
    last = n_unit * int(rng.integers(1, 1 + 192 // n_unit))
    shards = {"": last}
    if kind == "merged":
        shards = {"gate": 128 * int(rng.integers(1, 3)), "up": last}
    if kind == "qkv":
        shards = {"q": 128 * int(rng.integers(1, 3)), "k": 128, "v": 128}
    return LinearCase(
        method,
        kind,
        int(rng.integers(1, 24)),
        shards,
        k_unit * int(rng.integers(1, 1 + 384 // k_unit)),
        dtype=str(rng.choice(_DTYPES)),
        bias=bool(rng.integers(2)),
        fused=kind in ("merged", "qkv") and bool(rng.integers(2)),
        backend=backend,
    )


def null_run(method: Method, seed: int, **options: Any) -> Alarm | None:
    """Build a right layer from one seed and examine it with every probe."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, method, **options)
    checkpoint = case.checkpoint(rng)
    verdict = examine(build(case, checkpoint, device()), checkpoint, rng, recorded=False)
    return None if verdict.ok else Alarm(seed, verdict)


def require_silence(method: Method, count: int, **options: Any) -> None:
    """Raise AssertionError with the seed of each alarm that `count` right layers raise."""
    tried = seeds(count)
    print(f"{method.format.name}: {len(tried)} right layers, first seed {tried[0]}")
    alarms = [alarm for seed in tried if (alarm := null_run(method, seed, **options))]
    assert not alarms, f"{len(alarms)} of {len(tried)} right layers raised an alarm:\n" + "\n".join(
        map(str, alarms)
    )
