"""A tokenizer's process: texts and chats to token ids."""

from __future__ import annotations

import zmq

from layers.serving.messages import Ready, Stop, Tokenize, Tokenized, ToTokenizer, decoder
from layers.serving.tokenizing.chat_template import ChatTemplate, ChatTemplateError
from layers.serving.tokenizing.files import TokenizerFiles
from layers.serving.workers.endpoints import Endpoints, inbox, outbox, received, tell


def run(name: str, endpoints: Endpoints, files: TokenizerFiles) -> None:
    """Works until it is told to stop."""
    context = zmq.Context()
    requests = inbox(context, endpoints.of(name))
    server = outbox(context, endpoints.of("server"))
    template = ChatTemplate(files.chat_template, files.special_tokens)
    decode = decoder(ToTokenizer)
    tell(server, Ready(name))
    while True:
        for message in received(requests, decode, wait=True):
            if isinstance(message, Stop):
                context.destroy()
                return
            assert isinstance(message, Tokenize)
            tell(server, _tokenize(message, files, template))


def _tokenize(message: Tokenize, files: TokenizerFiles, template: ChatTemplate) -> Tokenized:
    try:
        if message.messages is not None:
            # The template writes the special tokens itself.
            text, add_special = template.render(message.messages), False
        else:
            text, add_special = message.text or "", True
    except ChatTemplateError as error:
        return Tokenized(message.ticket, [], str(error))
    try:
        ids = files.tokenizer.encode(text, add_special_tokens=add_special).ids
    except Exception as error:  # the library raises no narrower kind
        return Tokenized(message.ticket, [], f"the model's tokenizer refuses the text: {error}")
    return Tokenized(message.ticket, ids)
