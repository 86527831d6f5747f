"""gpt-oss's kind of model on two ranks that split attention and share out the experts."""

from __future__ import annotations

from testing.e2e.asking.ask import ask_all
from testing.e2e.smokes.figures import Figures
from testing.e2e.smokes.seed import some_problems
from testing.e2e.smokes.smoke import Smoke
from testing.serving.server import Server

REQUESTS = 200


def examine(server: Server, figures: Figures) -> None:
    """200 requests, 64 at a time."""
    problems = some_problems(REQUESTS)
    figures.accuracy(ask_all(server.url, server.model, problems, stream=False, at_a_time=64))
    if "rank-1" not in server.workers():
        figures.failures.append(f"no second rank among {sorted(server.workers())}")


def smoke(name: str, checkpoint: str) -> Smoke:
    """Tensor parallel 2, expert parallel 2."""
    return Smoke(
        name=name,
        checkpoint=checkpoint,
        arguments=(
            *("--tensor-parallel", "2", "--expert-parallel", "2"),
            *("--max-running", "64", "--kv-tokens", "16384"),
        ),
        examine=examine,
        assertions=1,
    )


MXFP4 = smoke("gpt_oss_mxfp4_smoke", "gpt_oss_mxfp4")
BF16 = smoke("gpt_oss_bf16_smoke", "gpt_oss")
