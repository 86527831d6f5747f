"""How small a bias of an MLA layer the layer tests' checks find."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from testing.attention.mla import cases
from testing.attention.mla.examine import examine
from testing.strength.attention.mla.bench import ABSORBED, UNABSORBED, MlaBench, in_step
from testing.strength.attention.mla.edits import scaled
from testing.strength.attention.search import require_at_most
from testing.strength.fault import Plant

EXTEND = replace(cases.MIXED, query_lens=(17, 16, 15, 16), kv_lens=(31, 32, 46, 64))
PROMPTS = replace(cases.PROMPTS, query_lens=(15, 16, 17, 16), kv_lens=(15, 16, 17, 16))
HEAD, TOKEN = 2, 5


def weighed(gain: float, place: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """What attention gives, (Tq, H, …) float32, times 1 + gain in a place."""

    def change(original: Callable[..., torch.Tensor], *arguments: Any) -> torch.Tensor:
        output = original(*arguments).clone()
        place(output).mul_(1 + gain)
        return output

    return change


PLACES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "whole output": lambda output: output,
    "head": lambda output: output[:, HEAD],
    "token": lambda output: output[TOKEN],
}


@cache
def bench_of(path: str, seed: int) -> MlaBench:
    return MlaBench(EXTEND if path == "absorbed" else PROMPTS, seed)


def finds(path: str, family: str) -> Callable[[int, float], bool]:
    module = ABSORBED if path == "absorbed" else UNABSORBED

    def found(seed: int, gain: float) -> bool:
        bench = bench_of(path, seed)
        if family == "scale of the logits":
            plant: Plant = in_step(module, "logits", scaled(1 + gain))
        else:
            plant = in_step(module, "weigh", weighed(gain, PLACES[family]))
        with ExitStack() as stack:
            loaded = plant(bench, stack)
            return not examine(loaded, bench.call, recorded=False, explained=False).ok

    return found


GOALS = {"scale of the logits": 0.003, "whole output": 0.002, "head": 0.004, "token": 0.01}


@pytest.mark.parametrize("path", ["absorbed", "unabsorbed"])
@pytest.mark.parametrize("family", GOALS)
def test_a_bias_as_small_as_the_goal_is_found(family: str, path: str) -> None:
    require_at_most(GOALS[family], finds(path, family), f"mla {path}", family, "cpu")
