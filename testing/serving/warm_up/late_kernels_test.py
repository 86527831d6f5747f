"""On a GPU no kernel is compiled, or loaded, behind a warm-up: not by a step, not by a request."""

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from layers.models.load import load_model
from layers.serving.running.batch import Batch
from layers.serving.running.graphs import GraphPlan
from layers.serving.running.kernels import KernelWatch
from layers.serving.running.runner import Runner
from layers.serving.scheduling.scheduler import Limits
from layers.serving.workers.warm_up import Shape, warm_up
from testing.harness.device import device
from testing.oracles.models.configs import DEEPSEEK, GPT_OSS, LLAMA
from testing.serving.checkpoints import write_checkpoint
from testing.serving.server import Server, running_server

CONTEXT, PAGE = 200, 16
LATE = "plumbline_late_kernels_total"


@pytest.mark.parametrize(
    ("config", "drafts"), [(LLAMA, 0), (GPT_OSS, 0), (DEEPSEEK, 3)], ids=["llama", "gpt_oss", "mtp"]
)
def test_no_step_needs_a_kernel_that_is_new(
    tmp_path: Path, config: dict[str, Any], drafts: int
) -> None:
    watch = KernelWatch("test")
    watch.install()
    folder = write_checkpoint(tmp_path, config)
    model: Any = load_model(folder, device=device(), with_draft=drafts > 0)
    limits = Limits(32, 512, PAGE, drafts)
    plan = GraphPlan((1, 8), limits.pages_for(CONTEXT), PAGE, drafts)
    runner = Runner(model, 2, PAGE, with_draft=drafts > 0, graphs=plan)

    warm_up(runner, limits, CONTEXT)

    assert watch.prepared > 10, "the hook of Triton tells nothing"
    watch.expect_no_more()
    rng = random.Random(1)
    for _ in range(300):
        run(runner, step_of(rng, limits), drafts)
    assert watch.late == 0


def step_of(rng: random.Random, limits: Limits) -> Shape:
    """Any step, its sizes as likely to be small as large."""
    tokens = int(2 ** rng.uniform(0, 7.6))
    mode = rng.choice(
        ["extend", "decode", "draft"] if limits.draft_tokens else ["extend", "decode"]
    )
    if mode != "extend":
        tokens = 1 + limits.draft_tokens * (mode == "draft")
    texts = min(int(2 ** rng.uniform(0, 5.01)), limits.step_tokens // tokens)
    prefix = rng.choice([0, rng.randrange(CONTEXT - tokens)])
    least = -(-(prefix + tokens) // PAGE)
    return Shape(mode, texts, tokens, prefix, rng.randint(least, limits.pages_for(CONTEXT)))


def run(runner: Runner, shape: Shape, drafts: int) -> None:
    batch = shape.batch()
    runner.target(batch)
    if drafts:
        runner.draft_first(batch.input_ids, list(range(shape.texts)))
        table = batch.page_table
        kv_lens, texts = batch.kv_lens, shape.texts
        one = Batch("decode", [0] * texts, [1] * texts, kv_lens, table, list(range(texts)))
        runner.draft_next(one)


def ask(server: Server) -> None:
    """Prompts of all lengths at once, greedy, sampled and with logprobs."""
    statuses: list[int] = []

    def one(number: int) -> None:
        body = {"model": server.model, "prompt": "x" * (1 + 5 * number), "max_tokens": 1 + number}
        kinds: list[dict[str, Any]] = [{"temperature": 0}, {"logprobs": 3}, {"top_k": 4, "n": 2}]
        with server.client(timeout=60) as client:
            said = client.post("/v1/completions", json={**body, **kinds[number % 3], "seed": 1})
        statuses.append(said.status_code)

    one(0)
    threads = [threading.Thread(target=one, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 31


@pytest.mark.parametrize("options", [(), ("--speculative", "mtp"), ("--no-warm-up",)])
def test_no_request_waits_for_a_kernel(tmp_path: Path, options: tuple[str, ...]) -> None:
    folder = write_checkpoint(tmp_path / "model", DEEPSEEK)
    arguments = ("--device", "cuda", "--kv-tokens", "16384", "--max-running", "32")
    with running_server(folder, *arguments, *options, seconds=120) as server:
        ask(server)
        late = server.metric(LATE)
        # Without a warm-up there are some: the figure tells something.
        assert (late > 0) == ("--no-warm-up" in options), server.output()
        assert ("Warmed up by" in server.output()) == ("--no-warm-up" not in options)
