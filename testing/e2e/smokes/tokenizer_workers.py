"""Eight tokenizers and four detokenizers: what goes through all of them comes out right, in time.

One server stands for both numbers of workers, which do not depend on each other. Its latencies are
held against a bare loop over the same model in the same run, once before and once after the load,
so that what slows the machine slows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from tokenizers import Tokenizer

from layers.models.load import load_model
from testing.e2e.asking.ask import MAX_TOKENS, Answer, ask_all
from testing.e2e.checkpoints.folders import folder
from testing.e2e.smokes.figures import Figures, median
from testing.e2e.smokes.seed import some_problems
from testing.e2e.smokes.smoke import Smoke
from testing.e2e.smokes.unsure import greedy_texts
from testing.e2e.tasks.problems import Problem
from testing.harness.device import device
from testing.perf.serving.bare import BareLoop
from testing.serving.server import Server

REQUESTS = 100
TOKENIZERS, DETOKENIZERS = 8, 4
_STEPS = 12
"""Tokens that an answer has on average."""
_LOOKED_AT = 8
"""Answers that are asked again, at most."""


def examine(server: Server, figures: Figures) -> None:
    """100 requests at a time, unstreamed and streamed."""
    _check_workers(server, figures)
    problems = some_problems(REQUESTS)
    ask_all(server.url, server.model, problems[:8], stream=True)
    bare = _Bare(figures.checkpoint, problems)
    bare.measure()
    streamed = ask_all(server.url, server.model, problems, stream=True, at_a_time=REQUESTS)
    bare.measure()
    plain = ask_all(server.url, server.model, problems, stream=False, at_a_time=REQUESTS)
    figures.accuracy(streamed, "streamed_accuracy")
    figures.accuracy(plain, "unstreamed_accuracy")
    figures.agreement(streamed, plain)
    check_characters(server, streamed, figures)
    _check_streaming(streamed, figures)
    first = [answer.arrivals[0] for answer in streamed if answer.arrivals]
    figures.ratio("time_to_first_token", median(first) / fmean(bare.prompt_seconds))
    figures.ratio("inter_token", _mean_gap(streamed) / fmean(bare.step_seconds))


def _check_workers(server: Server, figures: Figures) -> None:
    names = set(server.workers())
    wanted = {f"tokenizer-{i}" for i in range(TOKENIZERS)}
    wanted |= {f"detokenizer-{i}" for i in range(DETOKENIZERS)}
    if missing := sorted(wanted - names):
        figures.failures.append(f"no process {', '.join(missing)}; there are {sorted(names)}")


def check_characters(server: Server, streamed: list[Answer], figures: Figures) -> None:
    """Characters that are split over tokens arrive whole, in wrong answers too.

    An answer with half a character in it is asked again, alone, of the server and of the model
    without one: only the model's own tokens may be no text.
    """
    if not any(a.is_right and not a.problem.answer.isascii() for a in streamed):
        figures.failures.append("no right answer holds a character beyond ASCII")
    broken = [answer.problem for answer in streamed if _is_broken(answer.parts)][:_LOOKED_AT]
    if not broken:
        return
    prompts = [problem.prompt for problem in broken]
    again = ask_all(server.url, server.model, broken, stream=True, at_a_time=1)
    (own,) = greedy_texts(figures.checkpoint, prompts, MAX_TOKENS, (1,))
    for answer, text in zip(again, own, strict=True):
        if _is_broken(answer.parts) and not _is_broken([text]):
            figures.failures.append(f"a part of '{text}' is no text, as in {answer.parts}")
            return


def _is_broken(parts: Sequence[str]) -> bool:
    return any("\N{REPLACEMENT CHARACTER}" in part for part in parts)


def _mean_gap(streamed: list[Answer]) -> float:
    """Of the parts of answers; 0 without any, as from a server that keeps all back till the end."""
    gaps = [gap for answer in streamed for gap in answer.gaps]
    return fmean(gaps) if gaps else 0.0


def _check_streaming(streamed: list[Answer], figures: Figures) -> None:
    parted = sum(len(answer.parts) > 1 for answer in streamed)
    # Each right answer has two tokens of text or more.
    if parted <= len(streamed) / 2:
        figures.failures.append(
            f"{parted} of {len(streamed)} answers came in more than one part: nothing was streamed"
        )


class _Bare:
    """The same prompts in one batch, twice."""

    def __init__(self, checkpoint: str, problems: list[Problem]) -> None:
        place = folder(checkpoint)
        tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
        self._prompts = [tokenizer.encode(p.prompt).ids for p in problems]
        self._loop = BareLoop(load_model(place, device=device()))
        self._loop.run(self._prompts, 2)
        self.prompt_seconds: list[float] = []
        self.step_seconds: list[float] = []

    def measure(self) -> None:
        """One course of the whole batch."""
        course = self._loop.run(self._prompts, _STEPS)
        self.prompt_seconds.append(course.prompt_seconds)
        self.step_seconds += course.step_seconds


SMOKE = Smoke(
    name="tokenizer_workers_smoke",
    checkpoint="dense",
    arguments=(
        *("--tokenizer-workers", str(TOKENIZERS), "--detokenizer-workers", str(DETOKENIZERS)),
        *("--max-running", "128", "--kv-tokens", "16384"),
    ),
    examine=examine,
    # Two accuracies, an agreement, two ratios.
    assertions=5,
)
