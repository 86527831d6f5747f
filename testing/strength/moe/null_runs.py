"""Right MoE layers by the hundred, from fresh seeds: none of them may raise an alarm."""

from __future__ import annotations

import numpy as np

from testing.harness.device import device
from testing.harness.moe.examine import examine
from testing.harness.moe.layer import MoeCase, MoeMethod, build
from testing.oracles.moe.routing import Routing
from testing.strength.null_runs import Alarm, seeds

_ROUTINGS = (
    Routing(1, "sigmoid", factor=2.5),
    Routing(2),
    Routing(2, renormalise=False),
    Routing(3, "sigmoid", groups=4, kept_groups=2, factor=2.5, shared=1),
)


def random_case(
    rng: np.random.Generator, method: MoeMethod, unit: int, block: int, backend: str
) -> MoeCase:
    """A small layer of any router, activation, naming and dtype, with or without biases.

    unit: H is a multiple of it; block: I is one of this.
    """
    return MoeCase(
        method,
        tokens=int(rng.integers(1, 9)),
        experts=8 if (groups := int(rng.integers(4)) == 3) else 4,
        hidden=unit * int(rng.integers(1, 1 + 96 // unit)),
        intermediate=block * int(rng.integers(1, 1 + max(1, 64 // block))),
        routing=_ROUTINGS[3] if groups else _ROUTINGS[int(rng.integers(3))],
        dtype=str(rng.choice(["bfloat16", "bfloat16", "float16"])),
        activation=str(rng.choice(["silu", "swiglu_oai"])),
        bias=bool(rng.integers(2)),
        naming=str(rng.choice(["deepseek", "mixtral", "fused"])),
        with_correction=bool(rng.integers(2)),
        backend=backend,
    )


def null_run(
    method: MoeMethod, seed: int, unit: int = 16, block: int = 16, backend: str = "torch"
) -> Alarm | None:
    """Build a right layer from one seed and examine it with every probe."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, method, unit, block, backend)
    checkpoint = case.checkpoint(rng)
    verdict = examine(build(case, checkpoint, device()), checkpoint, rng, recorded=False)
    return None if verdict.ok else Alarm(seed, verdict)


def require_silence(method: MoeMethod, count: int, unit: int = 16, block: int = 16) -> None:
    """Raise AssertionError with the seed of each alarm that `count` right layers raise."""
    tried = seeds(count)
    print(f"{method.format.name} MoE: {len(tried)} right layers, first seed {tried[0]}")
    alarms = [alarm for seed in tried if (alarm := null_run(method, seed, unit, block))]
    assert not alarms, f"{len(alarms)} of {len(tried)} right layers raised an alarm:\n" + "\n".join(
        map(str, alarms)
    )
