"""How often a model's greedy answer is right, by task.

A greedy answer is right exactly if each of its tokens is the likeliest one after the right ones
before it, so that one forward over the right text says so for a whole answer.
"""

from __future__ import annotations

import torch

from testing.e2e.tasks.problems import TASKS
from tools.tiny.data import Texts

_ROWS = 256


def right_answers(model: torch.nn.Module, held_out: Texts) -> torch.Tensor:
    """(N,) bool: whether the whole answer and its end come out."""
    # Where each row's end is; shorter ones first, so that a part is as wide as its rows need.
    ends = held_out.counted.shape[1] - held_out.counted.int().flip(1).argmax(1)
    right = torch.zeros_like(held_out.tasks, dtype=torch.bool)
    for rows in ends.argsort().split(_ROWS):
        part, width = held_out.rows(rows), int(ends[rows].max())
        with torch.no_grad():
            likeliest = model(part.ids[:, : width - 1]).argmax(-1)
        wanted, counted = part.ids[:, 1:width], part.counted[:, 1:width]
        right[rows] = ((likeliest == wanted) | ~counted).all(1)
    return right


def accuracy_by_task(model: torch.nn.Module, held_out: Texts) -> dict[str, float]:
    """{task: share of right answers}, of the tasks that are there."""
    right = right_answers(model, held_out)
    return {
        task: right[held_out.tasks == i].float().mean().item()
        for i, task in enumerate(TASKS)
        if (held_out.tasks == i).any()
    }
