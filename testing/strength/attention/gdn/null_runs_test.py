"""A thousand right gated delta layers, from fresh seeds, raise no alarm."""

import numpy as np
import pytest

from testing.attention.gdn.examine import examine
from testing.attention.gdn.layer import GdnCase, build
from testing.harness.device import device
from testing.oracles.attention.gdn.gdn import GdnShape
from testing.strength.null_runs import BATCH, BATCHES, Alarm, seeds


def random_case(rng: np.random.Generator) -> GdnCase:
    """A small layer of any sizes, and a call of any lengths."""
    k_heads, group = int(rng.integers(1, 4)), int(rng.choice([1, 2, 4]))
    shape = GdnShape(
        k_heads,
        k_heads * group,
        k_dim=int(rng.choice([8, 16, 24, 32])),
        v_dim=int(rng.choice([8, 16, 24, 32])),
        width=int(rng.integers(2, 5)),
    )
    mode = str(rng.choice(["extend", "extend", "decode"]))
    count = int(rng.integers(1, 5))
    lengths = [1 if mode == "decode" else int(2 ** rng.uniform(0, 7.2)) for _ in range(count)]
    initial = tuple(bool(rng.integers(2)) or mode == "decode" for _ in lengths)
    return GdnCase(
        mode,
        tuple(lengths),
        initial,
        shuffled=bool(rng.integers(2)),
        shape=shape,
        dtype=str(rng.choice(["bfloat16", "bfloat16", "float16", "float32"])),
    )


def null_run(seed: int) -> Alarm | None:
    """A right layer and a call of it, from one seed."""
    rng = np.random.default_rng(seed)
    case = random_case(rng)
    call = case.call(rng)
    verdict = examine(build(case, call, device()), case, call, recorded=False, replicas=8)
    return None if verdict.ok else Alarm(seed, verdict)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_right_layers_raise_no_alarm(batch: int) -> None:
    tried = seeds(BATCH)
    print(f"{len(tried)} right gated delta layers, first seed {tried[0]}")
    alarms = [alarm for seed in tried if (alarm := null_run(seed))]
    assert not alarms, f"{len(alarms)} of {len(tried)} right layers raised an alarm:\n" + "\n".join(
        map(str, alarms)
    )
