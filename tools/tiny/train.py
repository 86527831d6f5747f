"""Trains one tiny model, the reference of testing/oracles/models, on the tasks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from tools.tiny.data import Texts

_WARM_UP = 100
_DRAFT_WEIGHT = 0.3
_DRAFTS = 2


@dataclass(frozen=True)
class Settings:
    """How to train.

    learning_rate: at its highest, after the first hundred steps; it falls to 0 as a cosine does.
    """

    steps: int
    batch: int
    seed: int
    learning_rate: float = 3e-3
    weight_decay: float = 0.02


@dataclass
class Course:
    """What training reports.

    loss, draft_loss: means of the last steps, a hundred at most, in nats a counted token.
    """

    loss: float = math.nan
    draft_loss: float = math.nan
    seconds: float = 0.0


def train(
    model: Any,
    training: Texts,
    settings: Settings,
    after_step: Callable[[int], None] = lambda step: None,
    log: Callable[[str], None] = print,
) -> Course:
    """Trains the model in place, on the device and in the dtype that it has.

    after_step: called with the number of each step that ended.
    """
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2]},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    fused = training.ids.is_cuda
    optimiser = torch.optim.AdamW(
        groups,
        lr=settings.learning_rate,
        betas=(0.9, 0.95),
        weight_decay=settings.weight_decay,
        fused=fused,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda s: _rate(s, settings.steps))
    order = torch.Generator().manual_seed(settings.seed)
    course, began, sums = Course(), time.perf_counter(), []
    for step in range(settings.steps):
        rows = torch.randint(len(training), (settings.batch,), generator=order)
        losses = losses_of(model, training.rows(rows.to(training.ids.device)))
        optimiser.zero_grad()
        (losses[0] + _DRAFT_WEIGHT * sum(losses[1:])).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        after_step(step)
        sums.append(torch.stack([loss.detach() for loss in losses]))
        if step % 100 == 99 or step + 1 == settings.steps:
            mean, sums = torch.stack(sums).mean(0).tolist(), []
            course.loss, course.draft_loss = mean[0], mean[1] if len(mean) > 1 else math.nan
            course.seconds = time.perf_counter() - began
            log(f"step {step + 1}: loss {mean} after {course.seconds:.0f} s")
    return course


def _rate(step: int, steps: int) -> float:
    if step < _WARM_UP:
        return (step + 1) / _WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (step - _WARM_UP) / max(1, steps - _WARM_UP)))


def losses_of(model: Any, batch: Texts) -> list[torch.Tensor]:
    """Mean cross entropy of the counted tokens: of the model, of its drafts, of drafts after those.

    The second draft takes the first one's hidden state, as it does when a server drafts a chain.
    """
    hidden = model.hidden(batch.ids)
    losses = [_loss(model.logits(hidden[:, :-1]), batch, 1)]
    for ahead in range(2, 2 + _DRAFTS * model.config.get("num_nextn_predict_layers", 0)):
        hidden = model.draft_hidden(batch.ids[:, ahead - 1 :], hidden[:, :-1])
        losses.append(_loss(model.logits(hidden[:, :-1]), batch, ahead))
    return losses


def _loss(logits: torch.Tensor, batch: Texts, ahead: int) -> torch.Tensor:
    wanted, counted = batch.ids[:, ahead:], batch.counted[:, ahead:]
    each = cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), reduction="none")
    return (each * counted.flatten()).sum() / counted.sum()
