"""A chat's messages as one prompt, by the model's own template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment


class ChatTemplateError(ValueError):
    """The template is missing, or refuses the messages."""


class ChatTemplate:
    """A template in a sandbox: it comes with a checkpoint, and runs on what strangers send.

    Args:
        source: Jinja, in the dialect of Hugging Face's `apply_chat_template`; None where the model
            has no template.
        special_tokens: names such as "bos_token" to their text.

    Raises:
        ChatTemplateError: it is no Jinja.
    """

    def __init__(self, source: str | None, special_tokens: Mapping[str, str]) -> None:
        self._special_tokens = dict(special_tokens)
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        try:
            self._template = environment.from_string(source) if source is not None else None
        except (jinja2.TemplateError, RecursionError) as error:
            raise ChatTemplateError(f"the model's chat template is no Jinja: {error}") from error

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The prompt, the beginning of the assistant's answer included.

        Args:
            messages: each with "role" and "content".

        Raises:
            ChatTemplateError: there is no template, or it does not take these messages.
        """
        if self._template is None:
            raise ChatTemplateError(
                "the model has no chat template (chat_template in tokenizer_config.json): use "
                "/v1/completions"
            )
        try:
            return self._template.render(
                messages=list(messages), add_generation_prompt=True, **self._special_tokens
            )
        except Exception as error:  # a template may raise anything, as any program
            raise ChatTemplateError(f"the model's chat template refuses: {error}") from error


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, indent: int | None = None) -> str:
    # Jinja's own escapes what HTML would take for tags.
    return json.dumps(value, ensure_ascii=False, indent=indent)
