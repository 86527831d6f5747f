"""Answers are the model's: text, tokens, logprobs, usage, stop, seed; whole and streamed alike."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

import httpx
import numpy as np
import pytest

from layers.serving.messages import SamplingParams
from testing.serving import reference
from testing.serving.known_model import KnownConfig, logits_of, text_hash
from testing.serving.model_folder import LOADER, byte_tokenizer, write_folder
from testing.serving.server import Server, running_server

TOKENIZER = byte_tokenizer()
CONFIG = KnownConfig(vocab_size=TOKENIZER.get_vocab_size())
OPTIONS = ("--loader", LOADER, "--torch-threads", "1", "--tokenizer-workers", "2")
SPECULATIVE = ("--speculative", "mtp", "--detokenizer-workers", "2")


@pytest.fixture(scope="module", params=[(), SPECULATIVE], ids=["plain", "mtp"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = write_folder(tmp_path_factory.mktemp("models") / "known")
    with running_server(folder, *OPTIONS, *request.param) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as made:
        yield made


def ids_of(text: str) -> list[int]:
    return list(TOKENIZER.encode(text).ids)


def text_of(ids: list[int]) -> str:
    return str(TOKENIZER.decode(ids))


def complete(client: httpx.Client, **fields: Any) -> Any:
    answer = client.post("/v1/completions", json={"model": "known", **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def events(client: httpx.Client, path: str, **fields: Any) -> list[Any]:
    body = {"model": "known", "stream": True, **fields}
    with client.stream("POST", path, json=body) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        lines = [line for line in answer.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0, "max_tokens": 30, "ignore_eos": True},
        {"temperature": 0.8, "seed": 7, "max_tokens": 30, "top_k": 40, "top_p": 0.9},
        {"seed": -3, "max_tokens": 200},
    ],
)
def test_a_completion_is_the_models_text(client: httpx.Client, fields: dict[str, Any]) -> None:
    prompt = "Täglich 日本"
    params = SamplingParams(
        temperature=fields.get("temperature", 1.0),
        top_p=fields.get("top_p", 1.0),
        top_k=fields.get("top_k", 0),
        seed=fields.get("seed", 0) & (2**63 - 1),
        max_tokens=fields["max_tokens"],
        ignore_eos=fields.get("ignore_eos", False),
    )
    want = reference.generate(ids_of(prompt), params, CONFIG)
    for given in (prompt, ids_of(prompt)):
        answer = complete(client, prompt=given, **fields)
        choice = answer["choices"][0]
        assert choice["text"] == text_of(want.ids)
        assert choice["finish_reason"] == want.finish
        assert answer["usage"] == {
            "prompt_tokens": len(ids_of(prompt)),
            "completion_tokens": len(want.ids),
            "total_tokens": len(ids_of(prompt)) + len(want.ids),
        }
    streamed = events(client, "/v1/completions", prompt=prompt, **fields)
    assert "".join(event["choices"][0]["text"] for event in streamed) == text_of(want.ids)
    assert [e["choices"][0]["finish_reason"] for e in streamed][-1] == want.finish


def test_a_seed_repeats_a_text_and_another_does_not(client: httpx.Client) -> None:
    texts = {
        seed: {
            complete(client, prompt="x", max_tokens=20, seed=seed)["choices"][0]["text"]
            for _ in "12"
        }
        for seed in (1, 2)
    }
    assert len(texts[1]) == len(texts[2]) == 1 and texts[1] != texts[2]
    without = {complete(client, prompt="x", max_tokens=20)["choices"][0]["text"] for _ in "1234"}
    assert len(without) > 1


def test_several_prompts_and_texts_come_in_their_order(client: httpx.Client) -> None:
    fields: dict[str, Any] = {"max_tokens": 12, "seed": 3, "ignore_eos": True}
    answer = complete(client, prompt=["one", "two"], n=3, **fields)
    texts = [choice["text"] for choice in answer["choices"]]
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    assert len(set(texts)) == 6
    assert texts[0] == complete(client, prompt="one", **fields)["choices"][0]["text"]
    assert texts[3] == complete(client, prompt="two", **fields)["choices"][0]["text"]
    assert answer["usage"]["completion_tokens"] == 72
    assert answer["usage"]["prompt_tokens"] == 6, "each prompt counts once"
    parts = ["" for _ in range(6)]
    for event in events(client, "/v1/completions", prompt=["one", "two"], n=3, **fields):
        parts[event["choices"][0]["index"]] += event["choices"][0]["text"]
    assert parts == texts


def test_a_stop_string_over_tokens_ends_the_text_before_it(client: httpx.Client) -> None:
    fields: dict[str, Any] = {"prompt": "stop", "temperature": 0, "ignore_eos": True}
    whole = complete(client, **fields, max_tokens=40)["choices"][0]["text"]
    # Two characters, each of one or more tokens, that come first in the middle.
    at = next(i for i in range(10, len(whole)) if whole.find(whole[i : i + 2]) == i)
    stop = whole[at : at + 2]
    for stops in (stop, ["\x00never", stop]):
        answer = complete(client, **fields, max_tokens=400, stop=stops)
        assert answer["choices"][0]["text"] == whole[:at]
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert answer["usage"]["completion_tokens"] <= 40
    streamed = events(client, "/v1/completions", **fields, max_tokens=400, stop=stop)
    assert "".join(event["choices"][0]["text"] for event in streamed) == whole[:at]


def test_logprobs_are_the_models(client: httpx.Client) -> None:
    fields: dict[str, Any] = {
        "prompt": "log",
        "temperature": 0,
        "max_tokens": 8,
        "ignore_eos": True,
    }
    found = complete(client, **fields, logprobs=3)["choices"][0]["logprobs"]
    tokens = ids_of("log")
    for place in range(8):
        logits: Any = logits_of(text_hash(tokens), CONFIG.vocab_size).astype(np.float64)
        table = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        best = int(table.argmax())
        # JSON keeps every digit of a float64; the two sums differ in their order.
        assert found["token_logprobs"][place] == pytest.approx(table[best], abs=1e-13)
        top = sorted(found["top_logprobs"][place].values(), reverse=True)
        assert top == pytest.approx(np.sort(table)[::-1][:3].tolist(), abs=1e-13)
        tokens.append(best)
    streamed = events(client, "/v1/completions", **fields, logprobs=3)
    for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        parts = [event["choices"][0]["logprobs"][key] for event in streamed]
        assert list(chain.from_iterable(parts)) == found[key]


def test_a_chat_is_the_completion_of_its_template(client: httpx.Client) -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]},
    ]
    prompt = "<system>be brief\n<user>hi\n<assistant>"
    fields: dict[str, Any] = {"temperature": 0, "max_tokens": 10, "ignore_eos": True}
    want = complete(client, prompt=prompt, **fields, logprobs=2)["choices"][0]
    fields |= {"messages": messages, "logprobs": True, "top_logprobs": 2}
    answer = client.post("/v1/chat/completions", json={"model": "known", **fields}).json()
    choice = answer["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": want["text"], "refusal": None}
    assert answer["usage"]["prompt_tokens"] == len(ids_of(prompt))
    content = choice["logprobs"]["content"]
    assert [token["logprob"] for token in content] == want["logprobs"]["token_logprobs"]
    spelt = bytes(chain.from_iterable(token["bytes"] for token in content))
    assert spelt.decode("utf-8", "replace") == want["text"]
    assert all(len(token["top_logprobs"]) == 2 for token in content)
    streamed = events(
        client, "/v1/chat/completions", **fields, stream_options={"include_usage": True}
    )
    assert streamed[0]["choices"][0]["delta"]["role"] == "assistant"
    deltas = [event["choices"][0]["delta"] for event in streamed[:-1]]
    assert "".join(delta.get("content", "") for delta in deltas) == want["text"]
    assert streamed[-1]["choices"] == [] and streamed[-1]["usage"] == answer["usage"]
    assert all(event["usage"] is None for event in streamed[:-1])


def test_metrics_count_what_happened(server: Server, client: httpx.Client) -> None:
    names = ["prompt_tokens_total", "generated_tokens_total", "prefix_hit_tokens_total"]
    prompt = "a prompt of more than two pages, asked twice over"
    complete(client, prompt=prompt, max_tokens=1)
    before = [server.metric(f"plumbline_{name}") for name in names]
    complete(client, prompt=prompt, max_tokens=5, ignore_eos=True)
    after = [server.metric(f"plumbline_{name}") for name in names]
    assert [b - a for a, b in zip(before, after, strict=True)] == [len(prompt), 5, 48]
    assert server.metric("plumbline_kv_pages_used") == 0
    assert server.metric("plumbline_kv_pages_cached") > 0
    assert server.metric("plumbline_requests_in_flight") == 0
    if drafted := server.metric("plumbline_speculative_drafted_tokens_total"):
        lengths = server.metric("plumbline_speculative_accept_length_sum")
        count = server.metric("plumbline_speculative_accept_length_count")
        accepted = server.metric("plumbline_speculative_accepted_tokens_total")
        # Each verification adds a token of the model's own, unless the text ends before it.
        assert 0 < lengths - count <= accepted <= min(lengths, drafted)
