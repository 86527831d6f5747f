"""The requests that the server takes, field by field.

A field that is unknown, or that would change the answer and is not done here, is refused: an answer
that silently leaves out what was asked for is worse than none.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    field_validator,
    model_validator,
)

MAX_SEED = 2**63 - 1
# Counts that no vocabulary reaches; beyond 63 bits neither msgpack nor a tensor takes them.
_MOST_TOP_K = 2**31 - 1
# The most that OpenAI's API reference allows: `logprobs` of completions, `top_logprobs` of chats.
_MOST_LOGPROBS = 5
_MOST_TOP_LOGPROBS = 20
Token = Annotated[StrictInt, Field(ge=0)]


def _whole(text: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("half a surrogate pair, which is no Unicode text")
    return text


# JSON can write what no text can be.
Text = Annotated[str, AfterValidator(_whole)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StreamOptions(_Strict):
    """Of a streamed answer."""

    include_usage: bool = False
    include_obfuscation: bool = False


class _Sampling(_Strict):
    """What completions and chats have in common."""

    model: str
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0, le=_MOST_TOP_K)
    n: int | None = Field(default=None, ge=1, le=128)
    max_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = Field(default=None, ge=-(2**63), le=MAX_SEED)
    stop: Text | list[Text] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    ignore_eos: bool = False
    user: str | None = None
    # Taken at the value that changes nothing, and refused at any other.
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None

    @field_validator("frequency_penalty", "presence_penalty", "logit_bias")
    @classmethod
    def _not_done(cls, value: Any) -> Any:
        if value:
            raise ValueError("not supported by this server: leave it out")
        return value

    @field_validator("stop")
    @classmethod
    def _check_stop(cls, value: str | list[str] | None) -> str | list[str] | None:
        stops = [value] if isinstance(value, str) else value or []
        if len(stops) > 16:
            raise ValueError(f"{len(stops)} stop strings, wanted 16 at most")
        if "" in stops:
            raise ValueError("an empty stop string, wanted at least one character")
        return value

    @model_validator(mode="after")
    def _check_stream(self) -> _Sampling:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is only for stream=true")
        return self

    @property
    def stops(self) -> list[str]:
        """The stop strings."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or [])

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionRequest(_Sampling):
    """POST /v1/completions."""

    prompt: Text | list[Token] | list[Text] | list[list[Token]]
    logprobs: int | None = Field(default=None, ge=0, le=_MOST_LOGPROBS)
    best_of: int | None = None
    echo: bool | None = None
    suffix: str | None = None

    @field_validator("echo", "suffix")
    @classmethod
    def _nothing(cls, value: Any) -> Any:
        if value:
            raise ValueError("not supported by this server: leave it out")
        return value

    @model_validator(mode="after")
    def _check_prompt(self) -> CompletionRequest:
        if not self.prompts or any(not prompt for prompt in self.prompts):
            raise ValueError("an empty prompt, wanted at least one token")
        if self.best_of not in (None, self.n or 1):
            raise ValueError(
                f"best_of is {self.best_of}, wanted n ({self.n or 1}), or leave it out"
            )
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        """Each text, or its tokens."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if prompt and isinstance(prompt[0], int):
            return [[token for token in prompt if isinstance(token, int)]]
        return [part for part in prompt if not isinstance(part, int)]


class TextPart(_Strict):
    """A piece of a message's content."""

    type: Literal["text"]
    text: Text


class ChatMessage(_Strict):
    """One turn."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[TextPart]
    name: str | None = None

    @property
    def text(self) -> str:
        """The content, its pieces joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class ResponseFormat(_Strict):
    """Text alone."""

    type: Literal["text"]


class ChatRequest(_Sampling):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=_MOST_TOP_LOGPROBS)
    response_format: ResponseFormat | None = None

    @model_validator(mode="after")
    def _check_logprobs(self) -> ChatRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs is only for logprobs=true")
        return self

    @property
    def most_tokens(self) -> int | None:
        """Of the answer; None is what the context leaves."""
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens
        return self.max_tokens
