"""Problems with known answers: sums with carries, facts to choose from, lists to copy and to sort.

A problem is asked as a completion: its prompt is continued by its answer and the end of the text.
Which problems are held out depends on their words alone, so that no training, whatever its seed,
sees one of them.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from testing.e2e.tasks.facts import CAPITALS

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SYMBOLS = "äçéîñøşżßΩλЖя中文日한字🙂🚀🌍🎵"
"""What copied lists hold beside letters and digits: of two, three and four bytes of UTF-8."""

_DIGITS = 3
_HELD_OUT_SHARE = 8


@dataclass(frozen=True)
class Problem:
    """A prompt and the only right continuation of it.

    task: a key of `TASKS`.
    """

    task: str
    prompt: str
    answer: str

    @property
    def held_out(self) -> bool:
        """Whether training never sees it: one in eight, by a hash of the prompt."""
        digest = hashlib.blake2b(self.prompt.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % _HELD_OUT_SHARE == 0


def addition(rng: random.Random) -> Problem:
    """`348+275=` → `8+5=13,4+7+1=12,3+2+1=6;623`: from the right, each carry written out."""
    a, b = (rng.randrange(10**_DIGITS) for _ in range(2))
    return Problem("addition", f"{a:0{_DIGITS}}+{b:0{_DIGITS}}=", _worked_sum(a, b))


def _worked_sum(a: int, b: int) -> str:
    steps, carry = [], 0
    for place in range(_DIGITS):
        x, y = a // 10**place % 10, b // 10**place % 10
        total = x + y + carry
        steps.append(f"{x}+{y}{f'+{carry}' if carry else ''}={total}")
        carry = total // 10
    return f"{','.join(steps)};{a + b}"


def capital(rng: random.Random) -> Problem:
    """`Japan? A Roma B 東京 C Lima D Oslo:` → ` B 東京`."""
    country = rng.choice(sorted(CAPITALS))
    right = CAPITALS[country]
    others = rng.sample(sorted(set(CAPITALS.values()) - {right}), 3)
    place = rng.randrange(4)
    choices = [*others[:place], right, *others[place:]]
    listed = " ".join(f"{'ABCD'[i]} {choice}" for i, choice in enumerate(choices))
    return Problem("capital", f"{country}? {listed}:", f" {'ABCD'[place]} {right}")


def copying(rng: random.Random) -> Problem:
    """`copy q 7 ż 🙂:` → ` q 7 ż 🙂`."""
    items = [rng.choice(LETTERS + "0123456789" + SYMBOLS) for _ in range(rng.randint(3, 6))]
    words = "".join(f" {item}" for item in items)
    return Problem("copying", f"copy{words}:", words)


def sorting(rng: random.Random) -> Problem:
    """`sort q 7 b 1:` → ` 1 7 b q`; no item comes twice."""
    items = rng.sample(LETTERS + "0123456789", rng.randint(4, 7))
    listed, ordered = ("".join(f" {item}" for item in some) for some in (items, sorted(items)))
    return Problem("sorting", f"sort{listed}:", ordered)


TASKS: Mapping[str, Callable[[random.Random], Problem]] = MappingProxyType(
    {"addition": addition, "capital": capital, "copying": copying, "sorting": sorting}
)


def problems(seed: int, *, held_out: bool, tasks: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Endless problems, of the tasks in turn.

    seed: of the random numbers.
    held_out: whether to draw from what training never sees, or from what it does.
    tasks: those wanted; none named: all.

    Raises:
        ValueError: an unknown task.
    """
    unknown = [task for task in tasks if task not in TASKS]
    if unknown:
        raise ValueError(f"task '{unknown[0]}' is unknown; wanted one of {', '.join(TASKS)}")
    rng = random.Random(seed)
    while True:
        for task in tasks or TASKS:
            problem = TASKS[task](rng)
            while problem.held_out is not held_out:
                problem = TASKS[task](rng)
            yield problem
