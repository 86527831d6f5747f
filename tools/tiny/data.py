"""Problems as tokens: batches to train on, of which only answers count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import torch
from tokenizers import Tokenizer

from testing.e2e.tasks.problems import TASKS, Problem, problems
from tools.tiny.tokenizer import ASSISTANT, BEGIN, END, USER

LENGTH = 72
"""Tokens that any problem has at most, asked as a chat and with its end."""

_CHATS = 4


@dataclass(frozen=True)
class Texts:
    """Problems with their answers, one a row, padded on the right with the end's token.

    ids: (N, LENGTH) int64.
    counted: (N, LENGTH) bool, the tokens of answers and of their ends.
    tasks: (N,) int64, places in `TASKS`.
    """

    ids: torch.Tensor
    counted: torch.Tensor
    tasks: torch.Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: str | torch.device) -> Texts:
        """The same on another device."""
        return Texts(*(t.to(device) for t in (self.ids, self.counted, self.tasks)))

    def rows(self, chosen: torch.Tensor | slice) -> Texts:
        """Some of the rows."""
        return Texts(self.ids[chosen], self.counted[chosen], self.tasks[chosen])


def training_texts(tokenizer: Tokenizer, seed: int, count: int) -> Texts:
    """Problems of all tasks that are not held out; one in four is asked as a chat."""
    some = list(islice(problems(seed, held_out=False), count))
    # Tasks come in turn, so that a fixed stride would ask chats of one task alone.
    chats = [i // len(TASKS) % _CHATS == 0 for i in range(count)]
    return texts(tokenizer, some, chats)


def held_out_texts(tokenizer: Tokenizer, seed: int, count: int, task: str | None = None) -> Texts:
    """Problems that no training sees, asked as completions."""
    some = islice(problems(seed, held_out=True, tasks=(task,) if task else ()), count)
    return texts(tokenizer, list(some), [False] * count)


def texts(tokenizer: Tokenizer, some: list[Problem], chats: Iterable[bool]) -> Texts:
    """Prompts and answers encoded apart, as a server sees them.

    Raises:
        ValueError: a problem of more than `LENGTH` tokens.
    """
    prompts = [
        f"{BEGIN}{USER}{p.prompt}{ASSISTANT}" if chat else f"{BEGIN}{p.prompt}"
        for p, chat in zip(some, chats, strict=True)
    ]
    asked = tokenizer.encode_batch(prompts, add_special_tokens=False)
    answered = tokenizer.encode_batch([p.answer + END for p in some], add_special_tokens=False)
    ids = torch.full((len(some), LENGTH), tokenizer.token_to_id(END))
    counted = torch.zeros((len(some), LENGTH), dtype=torch.bool)
    for i, (prompt, answer) in enumerate(zip(asked, answered, strict=True)):
        row = [*prompt.ids, *answer.ids]
        if len(row) > LENGTH:
            raise ValueError(
                f"'{some[i].prompt}' has {len(row)} tokens with its answer, at most {LENGTH} are "
                f"trained on: shorten the task or raise LENGTH"
            )
        ids[i, : len(row)] = torch.tensor(row)
        counted[i, len(prompt.ids) : len(row)] = True
    names = list(TASKS)
    return Texts(ids, counted, torch.tensor([names.index(p.task) for p in some]))
