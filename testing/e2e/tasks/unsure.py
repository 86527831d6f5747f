"""Prompts that a tiny model is unsure of: what it says of them is known by itself alone.

Drafts of the tasks' own answers are nearly always right, so that a verification which keeps every
draft would pass for a right one. Behind longer lists and sums than any in training the draft module
often differs from the model, and greedy text has to be the model's all the same.
"""

from __future__ import annotations

import random

from testing.e2e.tasks.problems import LETTERS, SYMBOLS, Problem


def unsure_problems(count: int, seed: int) -> list[Problem]:
    """Lists of ten and sums of five digits; their answers are what the model says, so unknown."""
    rng = random.Random(seed)
    asked = []
    for number in range(count):
        items = " ".join(rng.choice(LETTERS + SYMBOLS) for _ in range(10))
        sums = f"{rng.randrange(10**5):05}+{rng.randrange(10**5):05}="
        asked.append((f"copy {items}:", f"sort {items}:", sums)[number % 3])
    return [Problem("unsure", prompt, "") for prompt in asked]
