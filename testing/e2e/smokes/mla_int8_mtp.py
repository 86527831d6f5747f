"""MLA, experts and multi-token prediction in int8, a scale a channel, by the default backend."""

from __future__ import annotations

from testing.e2e.asking.ask import MAX_TOKENS, ask_all
from testing.e2e.smokes.figures import Figures
from testing.e2e.smokes.seed import seed, some_problems
from testing.e2e.smokes.smoke import Smoke
from testing.e2e.smokes.unsure import greedy_texts
from testing.e2e.tasks.unsure import unsure_problems
from testing.serving.server import Server

REQUESTS = 200
DRAFT_TOKENS = 3
UNSURE = 48
_METRIC = "plumbline_speculative_accept_length"


def examine(server: Server, figures: Figures) -> None:
    """200 requests, 64 at a time; the server's own count of what verifications accepted."""
    problems = some_problems(REQUESTS)
    answers = ask_all(server.url, server.model, problems, stream=False, at_a_time=64)
    figures.accuracy(answers)
    total, count = (server.metric(f"{_METRIC}_{part}") for part in ("sum", "count"))
    figures.accept_length(DRAFT_TOKENS, total, count)
    _examine_verification(server, figures)


def _examine_verification(server: Server, figures: Figures) -> None:
    """Greedy text of prompts whose drafts are often wrong is the model's own."""
    problems = unsure_problems(UNSURE, seed())
    answers = ask_all(server.url, server.model, problems, stream=False, at_a_time=UNSURE)
    prompts = [problem.prompt for problem in problems]
    wholes, parts = greedy_texts(figures.checkpoint, prompts, MAX_TOKENS, (UNSURE, UNSURE // 4))
    figures.sameness([answer.text for answer in answers], wholes, parts)


SMOKE = Smoke(
    name="mla_int8_mtp_smoke",
    checkpoint="mla_moe_mtp_int8_channel",
    arguments=(
        *("--speculative", "mtp", "--draft-tokens", str(DRAFT_TOKENS)),
        *("--max-running", "64", "--kv-tokens", "16384"),
    ),
    examine=examine,
    # Accuracy, accept length, sameness of the server and of batches.
    assertions=4,
)
