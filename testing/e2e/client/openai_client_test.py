"""OpenAI's own client, which no one here wrote, drives the server."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import openai
import pytest

from testing.e2e.checkpoints.folders import folder
from testing.e2e.tasks.problems import Problem, problems
from testing.harness.device import pool
from testing.serving.server import Server, running_server

DEVICE = "cpu" if pool() == "cpu" else "cuda"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    arguments = ("--device", DEVICE, "--torch-threads", "1", "--kv-tokens", "4096")
    with running_server(folder("dense"), *arguments, seconds=120) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def some(task: str, count: int = 8) -> list[Problem]:
    """Always the same, all of which the checkpoint answers rightly and without doubt."""
    return list(islice(problems(11, held_out=True, tasks=(task,)), count))


def test_models_are_listed(client: openai.OpenAI, server: Server) -> None:
    assert [model.id for model in client.models.list()] == [server.model]
    assert client.models.retrieve(server.model).id == server.model


def test_completions_continue_their_prompts(client: openai.OpenAI, server: Server) -> None:
    asked = some("copying")
    made = client.completions.create(
        model=server.model, prompt=[p.prompt for p in asked], max_tokens=48, temperature=0
    )
    assert [choice.index for choice in made.choices] == list(range(len(asked)))
    assert [choice.text for choice in made.choices] == [problem.answer for problem in asked]
    assert made.usage is not None
    assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens


def test_chats_are_answered_through_the_template(client: openai.OpenAI, server: Server) -> None:
    for problem in some("sorting"):
        made = client.chat.completions.create(
            model=server.model,
            messages=[{"role": "user", "content": problem.prompt}],
            max_tokens=48,
            temperature=0,
        )
        assert made.choices[0].message.role == "assistant"
        assert made.choices[0].message.content == problem.answer


def test_chats_stream_the_same_text(client: openai.OpenAI, server: Server) -> None:
    for problem in some("capital"):
        whole = client.chat.completions.create(
            model=server.model,
            messages=[{"role": "user", "content": problem.prompt}],
            max_tokens=48,
            temperature=0,
        )
        parts = client.chat.completions.create(
            model=server.model,
            messages=[{"role": "user", "content": problem.prompt}],
            max_tokens=48,
            temperature=0,
            stream=True,
        )
        texts = [part.choices[0].delta.content or "" for part in parts if part.choices]
        assert "".join(texts) == whole.choices[0].message.content == problem.answer
        assert sum(text != "" for text in texts) > 1


def test_a_stop_string_ends_the_text(client: openai.OpenAI, server: Server) -> None:
    problem = some("addition")[0]
    made = client.completions.create(
        model=server.model, prompt=problem.prompt, max_tokens=48, temperature=0, stop=[","]
    )
    assert made.choices[0].text == problem.answer.split(",")[0]
    assert made.choices[0].finish_reason == "stop"


def test_logprobs_are_of_the_tokens(client: openai.OpenAI, server: Server) -> None:
    problem = some("addition")[0]
    made = client.completions.create(
        model=server.model, prompt=problem.prompt, max_tokens=6, temperature=0, logprobs=2
    )
    logprobs = made.choices[0].logprobs
    assert logprobs is not None and logprobs.tokens is not None
    assert "".join(logprobs.tokens) == made.choices[0].text
    assert logprobs.token_logprobs is not None and logprobs.top_logprobs is not None
    for token, value, top in zip(
        logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True
    ):
        assert value <= 0
        # Greedy: the token is the likeliest.
        assert top[token] == max(top.values()) == value


def test_a_seed_repeats_a_draw(client: openai.OpenAI, server: Server) -> None:
    def draw(seed: int) -> str:
        made = client.completions.create(
            model=server.model, prompt="copy", max_tokens=24, temperature=1.5, seed=seed
        )
        return str(made.choices[0].text)

    assert draw(1) == draw(1)
    assert len({draw(seed) for seed in range(4)}) > 1


def test_errors_are_the_clients_own(client: openai.OpenAI, server: Server) -> None:
    with pytest.raises(openai.NotFoundError, match="nobody"):
        client.completions.create(model="nobody", prompt="1+1=")
    with pytest.raises(openai.BadRequestError, match="max_tokens"):
        client.completions.create(model=server.model, prompt="1+1=", max_tokens=-1)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.completions.create(model=server.model, prompt="1+1=", temperature=-1)
