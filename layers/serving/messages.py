"""What the server's processes say to each other: msgpack over ZeroMQ, each kind a tagged struct.

A choice is one text to be generated: a request of n choices, or of several prompts, is several.
Its number is given by the HTTP process and never used again while the server lives.
"""

from __future__ import annotations

import msgspec


class SamplingParams(msgspec.Struct, frozen=True, array_like=True):
    """How the next token is chosen from the logits.

    Attributes:
        temperature: logits are divided by it; 0 takes the largest logit.
        top_p: the smallest set of tokens with at least this probability; 1 is all.
        top_k: the k most probable; 0 is all.
        seed: of the noise, 0 … 2⁶³ - 1; a token depends on it, its place and its logits alone.
        logprobs: most probable alternatives reported with each token; None reports nothing.
        max_tokens: tokens generated at most, 1 or more.
        ignore_eos: whether an end-of-sequence token does not end the text.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    logprobs: int | None = None
    max_tokens: int = 16
    ignore_eos: bool = False


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """Natural logarithms of the model's probabilities, before temperature, top-k and top-p."""

    logprob: float
    top_ids: list[int]
    top_logprobs: list[float]


class Tokenize(msgspec.Struct, frozen=True, tag="tokenize"):
    """HTTP process → tokenizer: either a text, or a chat's messages for the model's template."""

    ticket: int
    text: str | None = None
    messages: list[dict[str, str]] | None = None


class Tokenized(msgspec.Struct, frozen=True, tag="tokenized"):
    """Tokenizer → HTTP process: the ids, or why there are none."""

    ticket: int
    ids: list[int]
    error: str | None = None


class Generate(msgspec.Struct, frozen=True, tag="generate"):
    """HTTP process → scheduler."""

    choice: int
    ids: list[int]
    params: SamplingParams
    detokenizer: int
    stop: list[str]


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """HTTP process or detokenizer → scheduler: nobody waits for this text any more."""

    choice: int


class NewTokens(msgspec.Struct, frozen=True, array_like=True):
    """What one step gave to one text.

    Attributes:
        choice: which.
        ids: the new tokens; an end-of-sequence token among them is the last, and no text.
        logprobs: one for each id, or empty where none were asked for.
        stop: its stop strings, with the first tokens of a text; else empty.
        finish: "stop", "length", "abort" or "" while it goes on. Each text gets exactly one.
        has_eos: whether the last of `ids` is an end-of-sequence token that ended the text.
    """

    choice: int
    ids: list[int]
    logprobs: list[TokenLogprobs]
    stop: list[str]
    finish: str
    has_eos: bool = False


class Tokens(msgspec.Struct, frozen=True, tag="tokens"):
    """Scheduler → detokenizer: all that a step gave to its texts."""

    outputs: list[NewTokens]


class ShownToken(msgspec.Struct, frozen=True, array_like=True):
    """A token as logprobs name it: its text, and the bytes that it stands for."""

    text: str
    bytes: list[int]
    logprob: float


class ShownLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """A generated token, and the most probable in its place."""

    token: ShownToken
    top: list[ShownToken]


class TextDelta(msgspec.Struct, frozen=True, array_like=True):
    """What a text grew by. `finish` as in `NewTokens`; `tokens` counts those that it cost."""

    choice: int
    text: str
    tokens: int
    logprobs: list[ShownLogprobs]
    finish: str


class Texts(msgspec.Struct, frozen=True, tag="texts"):
    """Detokenizer → HTTP process."""

    deltas: list[TextDelta]


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Worker → HTTP process: it can work now. The scheduler's says what the model takes."""

    worker: str
    vocab_size: int = 0
    context_length: int = 0


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Worker → HTTP process: it cannot start, for a reason that the user can mend."""

    worker: str
    error: str


class Stats(msgspec.Struct, frozen=True, tag="stats"):
    """Scheduler → HTTP process: gauges as they are, the others since the last such message."""

    running: int
    waiting: int
    pages_total: int
    pages_used: int
    pages_cached: int
    prefix_hit_tokens: int
    preemptions: int
    drafted: int
    accepted: int
    accept_lengths: list[int]


class LateKernels(msgspec.Struct, frozen=True, tag="late_kernels"):
    """Rank → HTTP process: kernels that it had to prepare, since the last such message."""

    count: int


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """HTTP process → any worker: end."""


ToTokenizer = Tokenize | Stop
ToScheduler = Generate | Abort | Stop
ToDetokenizer = Tokens | Stop
ToServer = Tokenized | Texts | Ready | Failed | Stats | LateKernels

_encoder = msgspec.msgpack.Encoder()


def encode(message: object) -> bytes:
    """A message as bytes."""
    return _encoder.encode(message)


def decoder(kinds: object) -> msgspec.msgpack.Decoder[object]:
    """A decoder of one of the unions above; it refuses every other kind."""
    return msgspec.msgpack.Decoder(kinds)
