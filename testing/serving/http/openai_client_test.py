"""A client that no one here wrote, the `openai` package, drives the server."""

from collections.abc import Iterator

import httpx
import openai
import pytest

from testing.serving.model_folder import LOADER, write_folder
from testing.serving.server import Server, running_server

OPTIONS = ("--loader", LOADER, "--torch-threads", "1", "--max-requests", "2")
TALK: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = write_folder(tmp_path_factory.mktemp("models") / "known", max_position=3000)
    with running_server(folder, *OPTIONS) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    http = httpx.Client(trust_env=False, timeout=60)
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0, http_client=http
    ) as made:
        yield made


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["known"]
    assert client.models.retrieve("known").id == "known"


def test_a_chat_whole_and_streamed(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(
        model="known",
        messages=TALK,
        max_completion_tokens=12,
        seed=5,
        logprobs=True,
        top_logprobs=2,
    )
    choice = whole.choices[0]
    assert whole.usage is not None and choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert len(choice.logprobs.content) == whole.usage.completion_tokens
    with client.chat.completions.create(
        model="known",
        messages=TALK,
        max_completion_tokens=12,
        seed=5,
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        chunks = list(stream)
    parts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(parts) == choice.message.content
    assert chunks[-1].usage == whole.usage
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == choice.finish_reason


def test_a_completion_whole_and_streamed(client: openai.OpenAI) -> None:
    whole = client.completions.create(
        model="known", prompt="hi", max_tokens=12, seed=5, logprobs=2, stop=["\x00"]
    )
    with client.completions.create(
        model="known", prompt="hi", max_tokens=12, seed=5, stream=True
    ) as stream:
        assert "".join(chunk.choices[0].text for chunk in stream) == whole.choices[0].text


def test_errors_are_the_classes_that_the_client_has_for_them(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.completions.create(model="gpt-9", prompt="x")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model="known", prompt="x" * 4000)
    assert (long.value.code, long.value.param) == ("context_length_exceeded", "prompt")
    with pytest.raises(openai.BadRequestError) as tools:
        client.chat.completions.create(model="known", messages=TALK, presence_penalty=1)
    assert tools.value.param == "presence_penalty"


def test_a_stream_that_is_left_frees_its_place_and_overload_is_a_rate_limit(
    server: Server, client: openai.OpenAI
) -> None:
    endless = {"ignore_eos": True}
    with client.completions.create(
        model="known", prompt="x", n=2, max_tokens=2900, stream=True, extra_body=endless
    ) as stream:
        next(iter(stream))
        with pytest.raises(openai.RateLimitError) as full:
            client.completions.create(model="known", prompt="x")
        assert full.value.response.headers["retry-after"] == "1"
    server.wait_for("plumbline_requests_in_flight", 0)
    assert client.completions.create(model="known", prompt="x").choices
