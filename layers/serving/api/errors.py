"""Errors as OpenAI's interface shapes them: {"error": {message, type, param, code}}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """An answer other than 200.

    Args:
        status: of HTTP.
        message: what was seen, what was wanted, what to do.
        param: the field of the request that is to blame.
        code: a word for programs.
        kind: the error's `type`; None is that of the status.
        headers: of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.kind = kind or _KINDS.get(status, "invalid_request_error")
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        error = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }
        return {"error": error}


_KINDS = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}


def unknown_model(name: str, known: str) -> ApiError:
    """404: the server has another model."""
    return ApiError(
        404,
        f"the model '{name}' does not exist here, wanted '{known}'",
        param="model",
        code="model_not_found",
    )


def too_long(prompt: int, wanted: int | None, most: int, param: str) -> ApiError:
    """400: prompt and answer do not fit. `param` is the field that holds the prompt."""
    asked = f"{prompt} tokens in the prompt"
    if wanted is not None:
        asked += f" and {wanted} for the answer"
    return ApiError(
        400,
        f"this server's context length is {most} tokens, and the request has {asked}: shorten the "
        f"prompt, or lower max_tokens",
        param=param,
        code="context_length_exceeded",
    )


def too_large(most: int) -> ApiError:
    """413: a body that the server does not read to its end."""
    return ApiError(
        413,
        f"the request's body is longer than {most} bytes, which is what this server takes: ask for "
        f"fewer prompts at a time, or have it started with a larger --max-body-bytes",
        code="request_too_large",
    )


def overloaded(limit: int) -> ApiError:
    """429: as many texts are in the making as the server takes."""
    return ApiError(
        429,
        f"the server is working on as many texts as it takes, {limit}: try again in a second",
        code="overloaded",
        headers={"Retry-After": "1"},
    )


def stopping(why: str) -> ApiError:
    """503: the server ends."""
    return ApiError(503, why, code="server_stopping")
