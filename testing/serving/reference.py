"""What the engine should answer, by a loop without batches, pages, caches or parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from layers.serving.messages import SamplingParams
from layers.serving.sampling.sampler import sample
from testing.serving.known_model import KnownConfig, draft_output, logits_of, text_hash


@dataclass(frozen=True)
class Answer:
    """A text's end.

    Attributes:
        ids: generated tokens.
        finish: "stop" or "length".
    """

    ids: list[int]
    finish: str


def choose(text: int, config: KnownConfig, params: SamplingParams, place: int) -> int:
    """The token that the sampler takes for one row alone."""
    logits = torch.from_numpy(logits_of(text, config.vocab_size))[None]
    return sample(logits, [params], [place])[0]


def generate(prompt: Sequence[int], params: SamplingParams, config: KnownConfig) -> Answer:
    """The model's text, one token at a time."""
    tokens = list(prompt)
    while len(tokens) - len(prompt) < params.max_tokens:
        tokens.append(choose(text_hash(tokens), config, params, len(tokens)))
        if tokens[-1] in config.eos_token_ids and not params.ignore_eos:
            return Answer(tokens[len(prompt) :], "stop")
    return Answer(tokens[len(prompt) :], "length")


def drafts(
    tokens: Sequence[int], count: int, params: SamplingParams, config: KnownConfig
) -> list[int]:
    """What the draft module proposes behind a text."""
    entries = [(text_hash(tokens[: p + 1]), tokens[p + 1]) for p in range(len(tokens) - 1)]
    proposed: list[int] = []
    for _ in range(count):
        view = draft_output(entries)
        proposed.append(choose(view, config, params, len(tokens) + len(proposed)))
        entries.append((view, proposed[-1]))
    return proposed


def accept_lengths(
    prompt: Sequence[int],
    answer: Sequence[int],
    count: int,
    params: SamplingParams,
    config: KnownConfig,
) -> list[int]:
    """How many tokens an answer gets of each verification; none comes behind its end."""
    return [given for given, _ in verifications(prompt, answer, count, params, config)]


def verifications(
    prompt: Sequence[int],
    answer: Sequence[int],
    count: int,
    params: SamplingParams,
    config: KnownConfig,
) -> list[tuple[int, int]]:
    """On the way to an answer: tokens that each verification gives, and drafts among them."""
    given: list[tuple[int, int]] = []
    tokens = [*prompt, answer[0]]
    whole = [*prompt, *answer]
    while len(tokens) < len(whole):
        proposed = drafts(tokens, count, params, config)
        right = list(tokens)
        for token in proposed:
            if token != choose(text_hash(right), config, params, len(right)):
                break
            right.append(token)
        left, accepted = len(whole) - len(tokens), len(right) - len(tokens)
        given.append((min(accepted + 1, left), min(accepted, left)))
        right.append(choose(text_hash(right), config, params, len(right)))
        tokens = right
    return given
