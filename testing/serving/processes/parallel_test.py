"""Two ranks that speculate are as near to the truth as one that does not, on a real checkpoint.

Ranks add in another order, and of random weights two tokens are nearly as likely here and there, so
texts need not be the same. Each server's text is held against the model in float64 that reads the
same text: how far its logprobs are off, and how much less likely its tokens are than the likeliest.
"""

import json
from collections.abc import Sequence
from math import atan, comb, pi, sqrt
from pathlib import Path

import torch
from safetensors.torch import load_file

from layers.serving.tokenizing.token_text import TokenTexts
from testing.oracles.models.build import build
from testing.oracles.models.configs import DEEPSEEK
from testing.serving.checkpoints import write_checkpoint
from testing.serving.model_folder import byte_tokenizer
from testing.serving.server import running_server

RANKS = ("--tensor-parallel", "2", "--expert-parallel", "2", "--speculative", "mtp")
PROMPTS = [[1 + (7 * n + 11 * i) % 250 for i in range(1 + n % 40)] for n in range(80)]
TOKENS = 5
FALSE_FAILURES = 1e-6
# Of a sum over two ranks each part is rounded, which together is as much as the one rounding of one
# rank, and then their sum: at most twice the variance. So often is the error of two the larger one,
# where errors are independent and normal.
LARGER = 1 - 2 / pi * atan(1 / sqrt(2))

Answer = tuple[list[int], list[float]]


def answers(folder: Path, *options: str) -> tuple[list[Answer], set[str]]:
    """Tokens and logprobs of each text, and the workers' names."""
    texts = TokenTexts(byte_tokenizer())
    ids = {shown_name(*texts.of(token)): token for token in range(258)}
    with running_server(folder, "--torch-threads", "1", *options) as server:
        with server.client(timeout=60) as client:
            body = {"model": server.model, "prompt": PROMPTS, "max_tokens": TOKENS}
            body |= {"temperature": 0, "ignore_eos": True, "logprobs": 0}
            answer = client.post("/v1/completions", json=body).raise_for_status()
            found = [choice["logprobs"] for choice in answer.json()["choices"]]
        if options:
            assert server.metric("plumbline_speculative_accept_length_count") > 0
        workers = set(server.workers())
    return [([ids[t] for t in one["tokens"]], one["token_logprobs"]) for one in found], workers


def shown_name(text: str, data: bytes) -> str:
    """What logprobs call a token: as OpenAI does, where its bytes are no text."""
    if "\N{REPLACEMENT CHARACTER}" in text:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
    return text


class Truth:
    """The checkpoint in float64."""

    def __init__(self, folder: Path) -> None:
        self._model = build(json.loads((folder / "config.json").read_text()), torch.float64)
        tensors = load_file(folder / "model.safetensors")
        self._model.load_state_dict({name: t.double() for name, t in tensors.items()})

    def errors(self, prompt: list[int], answer: Answer) -> tuple[float, float]:
        """Of an answer: how far its logprobs are off, and how much less likely its tokens are."""
        tokens, logprobs = answer
        with torch.no_grad():
            logits = self._model(torch.tensor([[*prompt, *tokens]]))[0, len(prompt) - 1 : -1]
        table = torch.log_softmax(logits, dim=-1)
        right = table[range(len(tokens)), tokens]
        off = (right - torch.tensor(logprobs, dtype=torch.float64)).abs().sum()
        return float(off), float((table.amax(dim=-1) - right).sum())


def require_no_worse(two: Sequence[float], one: Sequence[float], what: str) -> None:
    """A sign test: those of two ranks are the larger ones no more often than rounding explains."""
    pairs = [(its, mine) for its, mine in zip(two, one, strict=True) if its != mine]
    larger = sum(its > mine for its, mine in pairs)
    count = len(pairs)
    chance = sum(
        comb(count, k) * LARGER**k * (1 - LARGER) ** (count - k) for k in range(larger, count + 1)
    )
    print(f"{what}: {larger} of {count} are larger with two ranks, by chance {chance:.1e}")
    assert chance > FALSE_FAILURES, what


def test_two_ranks_are_as_right_as_one(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", DEEPSEEK, seed=1)
    one, alone = answers(folder)
    two, workers = answers(folder, *RANKS)
    truth = Truth(folder)
    of_one, of_two = (
        [truth.errors(prompt, answer) for prompt, answer in zip(PROMPTS, found, strict=True)]
        for found in (one, two)
    )

    assert workers - alone == {"rank-1"}
    assert len({tuple(tokens) for tokens, _ in one}) > 60, "all alike, whatever was wrong"
    for index, what in enumerate(("logprobs", "choices")):
        require_no_worse([e[index] for e in of_two], [e[index] for e in of_one], what)
