"""Bad requests get the interface's error shape, with the status and the field that is to blame."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from testing.serving.model_folder import LOADER, write_folder
from testing.serving.server import Server, running_server

COMPLETION = {"model": "known", "prompt": "hi", "max_tokens": 4}
CHAT = {"model": "known", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
OPTIONS = ("--loader", LOADER, "--torch-threads", "1", "--max-requests", "8")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = write_folder(tmp_path_factory.mktemp("models") / "known", max_position=100)
    with running_server(folder, *OPTIONS) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as made:
        yield made


def require_error(
    answer: httpx.Response, status: int, param: str | None, code: str | None, says: str
) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    error = answer.json()["error"]
    assert sorted(error) == ["code", "message", "param", "type"]
    assert (error["param"], error["code"]) == (param, code)
    assert says in error["message"]
    wanted = {429: "rate_limit_error"}.get(status, "invalid_request_error")
    assert error["type"] == wanted


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("change", "status", "param", "code", "says"),
    [
        ({"model": "gpt-9"}, 404, "model", "model_not_found", "'gpt-9' does not exist"),
        ({"prompt": "x" * 97}, 400, "prompt", "context_length_exceeded", "97 tokens in the"),
        ({"max_tokens": 99}, 400, "prompt", "context_length_exceeded", "and 99 for the answer"),
        ({"prompt": []}, 400, None, None, "an empty prompt"),
        ({"prompt": ["a", ""]}, 400, None, None, "an empty prompt"),
        ({"prompt": [5, 257]}, 400, "prompt", None, "token 257 in the prompt, wanted less"),
        ({"prompt": [5, -1]}, 400, "prompt", None, "greater than or equal to 0"),
        ({"prompt": 7}, 400, "prompt", None, "prompt"),
        ({"max_tokens": 0}, 400, "max_tokens", None, "greater than or equal to 1"),
        ({"temperature": 2.5}, 400, "temperature", None, "less than or equal to 2"),
        ({"top_p": 0}, 400, "top_p", None, "greater than 0"),
        ({"top_k": -1}, 400, "top_k", None, "greater than or equal to 0"),
        ({"top_k": 2**31}, 400, "top_k", None, "less than or equal to 2147483647"),
        ({"top_k": 2**63}, 400, "top_k", None, "less than or equal to 2147483647"),
        ({"top_k": 2**70}, 400, "top_k", None, "less than or equal to 2147483647"),
        ({"n": 0}, 400, "n", None, "greater than or equal to 1"),
        ({"n": 9}, 400, "n", None, "asks for 9 texts, and the server makes 8"),
        ({"logprobs": 6}, 400, "logprobs", None, "less than or equal to 5"),
        ({"stop": [""]}, 400, "stop", None, "an empty stop string"),
        ({"stop": ["a"] * 17}, 400, "stop", None, "17 stop strings"),
        ({"seed": 2**63}, 400, "seed", None, "less than or equal"),
        ({"echo": True}, 400, "echo", None, "not supported"),
        ({"best_of": 3}, 400, None, None, "best_of is 3, wanted n (1)"),
        ({"frequency_penalty": 0.5}, 400, "frequency_penalty", None, "not supported"),
        ({"logit_bias": {"5": 1}}, 400, "logit_bias", None, "not supported"),
        ({"tempature": 1}, 400, "tempature", "unknown_parameter", "unknown field 'tempature'"),
    ],
)
def test_completions(
    client: httpx.Client,
    stream: bool,
    change: dict[str, Any],
    status: int,
    param: str | None,
    code: str | None,
    says: str,
) -> None:
    answer = client.post("/v1/completions", json={**COMPLETION, "stream": stream, **change})
    require_error(answer, status, param, code, says)


@pytest.mark.parametrize(
    ("change", "status", "param", "code", "says"),
    [
        ({"model": "gpt-9"}, 404, "model", "model_not_found", "does not exist"),
        ({"messages": []}, 400, "messages", None, "at least 1 item"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 400, "messages", None, "'user'"),
        ({"messages": [{"role": "user"}]}, 400, "messages", "missing_required_parameter", ""),
        (
            {"messages": [{"role": "user", "content": "refuse"}]},
            400,
            "messages",
            None,
            "refuses: no such talk",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
            400,
            "messages",
            None,
            "text",
        ),
        (
            {"messages": [{"role": "user", "content": "x" * 100}]},
            400,
            "messages",
            "context_length_exceeded",
            "tokens in the prompt",
        ),
        ({"tools": []}, 400, "tools", "unknown_parameter", "unknown field 'tools'"),
        ({"top_logprobs": 2}, 400, None, None, "only for logprobs=true"),
        ({"logprobs": True, "top_logprobs": 21}, 400, "top_logprobs", None, "equal to 20"),
        ({"stream_options": {"include_usage": True}}, 400, None, None, "only for stream=true"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format", None, "'text'"),
    ],
)
def test_chats(
    client: httpx.Client,
    change: dict[str, Any],
    status: int,
    param: str | None,
    code: str | None,
    says: str,
) -> None:
    answer = client.post("/v1/chat/completions", json={**CHAT, **change})
    require_error(answer, status, param, code, says)


def test_what_is_no_request_at_all(client: httpx.Client) -> None:
    json = {"content-type": "application/json"}
    answer = client.post("/v1/completions", content=b'{"model": ', headers=json)
    require_error(answer, 400, None, None, "the body is no JSON")
    answer = client.post("/v1/completions", content=b"", headers=json)
    require_error(answer, 400, None, "missing_required_parameter", "the body is missing")
    answer = client.post("/v1/completions", content=b"[1]", headers=json)
    require_error(answer, 400, None, None, "dictionary")
    answer = client.post("/v1/completions", json={"prompt": "x"})
    require_error(answer, 400, "model", "missing_required_parameter", "'model' is missing")
    require_error(client.get("/v1/nothing"), 404, None, None, "GET /v1/nothing")
    require_error(client.get("/v1/completions"), 405, None, None, "GET /v1/completions")
    require_error(client.get("/v1/models/x"), 404, "model", "model_not_found", "'x' does not")


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("completions", '"prompt": "a\\ud800b"', 400, "prompt"),
        ("completions", '"prompt": ["a", "\\udfff"]', 400, "prompt"),
        ("completions", '"prompt": "a", "stop": "\\ud800"', 400, "stop"),
        ("completions", '"prompt": "a", "\\ud800": 1', 400, None),
        (
            "chat/completions",
            '"messages": [{"role": "user", "content": "\\ud800"}]',
            400,
            "messages",
        ),
    ],
)
def test_half_a_surrogate_pair_is_no_text(
    client: httpx.Client, path: str, body: str, status: int, param: str | None
) -> None:
    """JSON can write it; no tokenizer and no answer can take it."""
    content = ('{"model": "known", "max_tokens": 2, ' + body + "}").encode()
    headers = {"content-type": "application/json"}
    answer = client.post(f"/v1/{path}", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["param"] == param
    assert client.post("/v1/completions", json=COMPLETION).status_code == 200


def test_the_longest_text_that_fits_is_taken(client: httpx.Client) -> None:
    body = {**COMPLETION, "prompt": "x" * 96, "ignore_eos": True}
    assert client.post("/v1/completions", json=body).json()["usage"]["total_tokens"] == 100
    body = {"model": "known", "messages": CHAT["messages"], "ignore_eos": True}
    usage = client.post("/v1/chat/completions", json=body).json()["usage"]
    assert usage["total_tokens"] == 100, "without max_tokens a chat goes on to the context's end"


def test_refused_requests_leave_nothing_behind(server: Server, client: httpx.Client) -> None:
    assert server.metric("plumbline_requests_in_flight") == 0
    for _ in range(20):
        client.post("/v1/completions", json={**COMPLETION, "prompt": "x" * 200})
    assert client.post("/v1/completions", json={**COMPLETION, "n": 8}).status_code == 200
    assert server.metric("plumbline_requests_in_flight") == 0
