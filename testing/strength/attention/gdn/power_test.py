"""How small a bias of a gated delta layer the layer tests' checks find."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
import torch

from layers.kernels.gdn import chunked
from testing.attention.gdn.examine import ask, judge
from testing.strength.attention.gdn.bench import EXTEND, GdnBench, in_layer, in_step
from testing.strength.attention.gdn.edits import decay_times
from testing.strength.attention.search import require_at_most
from testing.strength.fault import Plant


def chunk_times(gain: float, place: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """Outputs (H, C, Dv) of a chunk times 1 + gain in a place."""

    def change(original: Callable[..., Any], *arguments: Any) -> Any:
        output, state = original(*arguments)
        place(output).mul_(1 + gain)
        return output, state

    return change


PLANTS: dict[str, Callable[[float], Plant]] = {
    "decay": lambda gain: in_layer("gates", decay_times(1 + gain)),
    "whole output": lambda gain: in_step(chunked, "run_chunk", chunk_times(gain, lambda o: o)),
    "head": lambda gain: in_step(chunked, "run_chunk", chunk_times(gain, lambda o: o[2])),
    "token": lambda gain: in_step(chunked, "run_chunk", chunk_times(gain, lambda o: o[:, :1])),
}
GOALS = {"decay": 0.0001, "whole output": 0.0002, "head": 0.0005, "token": 0.002}


@cache
def bench_of(seed: int) -> GdnBench:
    return GdnBench(EXTEND, seed)


@pytest.mark.parametrize("family", GOALS)
def test_a_bias_as_small_as_the_goal_is_found(family: str) -> None:
    def found(seed: int, gain: float) -> bool:
        bench = bench_of(seed)
        with ExitStack() as stack:
            layer = PLANTS[family](gain)(bench, stack)
            seen = ask(layer, bench.case, bench.call)
        return not judge(layer, bench.case, bench.call, seen, 8, explained=False).ok

    require_at_most(GOALS[family], found, "gdn", family, "cpu")
