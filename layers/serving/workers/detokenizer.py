"""A detokenizer's process: tokens to text, as they come."""

from __future__ import annotations

import zmq
from tokenizers import Tokenizer

from layers.serving.messages import (
    Abort,
    Ready,
    Stop,
    TextDelta,
    ToDetokenizer,
    Tokens,
    decoder,
)
from layers.serving.messages import Texts as TextsMessage
from layers.serving.tokenizing.texts import Texts
from layers.serving.workers.endpoints import Endpoints, inbox, outbox, received, tell


def run(name: str, endpoints: Endpoints, tokenizer: Tokenizer) -> None:
    """Works until it is told to stop."""
    context = zmq.Context()
    steps = inbox(context, endpoints.of(name))
    server = outbox(context, endpoints.of("server"))
    scheduler = outbox(context, endpoints.of("scheduler"))
    texts = Texts(tokenizer)
    decode = decoder(ToDetokenizer)
    tell(server, Ready(name))
    while True:
        deltas: list[TextDelta] = []
        for message in received(steps, decode, wait=True):
            if isinstance(message, Stop):
                context.destroy()
                return
            assert isinstance(message, Tokens)
            for new in message.outputs:
                delta, is_stopped = texts.add(new)
                if is_stopped:
                    tell(scheduler, Abort(new.choice))
                if delta is not None:
                    deltas.append(delta)
        if deltas:
            tell(server, TextsMessage(deltas))
