"""How often a model's greedy answer is right, by task.

A greedy answer is right exactly if each of its tokens is the likeliest one after the right ones
before it, so that one forward over the right text says so for a whole answer.
"""

from __future__ import annotations

import torch

from testing.e2e.tasks.problems import TASKS
from tools.tiny.data import Texts

_ROWS = 512


def right_answers(model: torch.nn.Module, held_out: Texts) -> torch.Tensor:
    """(N,) bool: whether the whole answer and its end come out."""
    parts = []
    for start in range(0, len(held_out), _ROWS):
        part = held_out.rows(slice(start, start + _ROWS))
        with torch.no_grad():
            likeliest = model(part.ids[:, :-1]).argmax(-1)
        parts.append(((likeliest == part.ids[:, 1:]) | ~part.counted[:, 1:]).all(1))
    return torch.cat(parts)


def accuracy_by_task(model: torch.nn.Module, held_out: Texts) -> dict[str, float]:
    """{task: share of right answers}, of the tasks that are there."""
    right = right_answers(model, held_out)
    return {
        task: right[held_out.tasks == i].float().mean().item()
        for i, task in enumerate(TASKS)
        if (held_out.tasks == i).any()
    }
