"""The routes, and what becomes of a request that none of them takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from layers.serving.api import chat, completions
from layers.serving.api.answering import StreamedAnswer, WholeAnswer
from layers.serving.api.body import LimitBody
from layers.serving.api.counting import CountRequests
from layers.serving.api.errors import ApiError, stopping
from layers.serving.api.metrics import CONTENT_TYPE
from layers.serving.api.protocol import ChatRequest, CompletionRequest
from layers.serving.api.service import Service

_PATHS = ("/v1/completions", "/v1/chat/completions", "/v1/models", "/health", "/metrics")


def make_app(service: Service, max_body_bytes: int) -> ASGIApp:
    """The ASGI application of a server, which reads no longer bodies."""
    # No pages of documentation: they would load scripts from elsewhere.
    app = FastAPI(title="layers.serving", docs_url=None, redoc_url=None, openapi_url=None)
    _add_generation(app, service)
    _add_information(app, service)
    _add_errors(app)
    return CountRequests(LimitBody(app, max_body_bytes), service.metrics, _PATHS)


def _add_generation(app: FastAPI, service: Service) -> None:
    @app.post("/v1/completions", response_model=None)
    async def complete(request: CompletionRequest) -> Response:
        service.check_model(request.model)
        if request.stream:
            return StreamedAnswer(lambda: completions.streamed(service, request))
        return WholeAnswer(lambda: completions.whole(service, request))

    @app.post("/v1/chat/completions", response_model=None)
    async def answer(request: ChatRequest) -> Response:
        service.check_model(request.model)
        if request.stream:
            return StreamedAnswer(lambda: chat.streamed(service, request))
        return WholeAnswer(lambda: chat.whole(service, request))


def _add_information(app: FastAPI, service: Service) -> None:
    about = {
        "id": service.model,
        "object": "model",
        "created": service.created,
        "owned_by": "layers.serving",
    }

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [about]}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        service.check_model(name)
        return about

    @app.get("/health")
    async def health() -> dict[str, str]:
        if service.backend.stopping is not None:
            raise stopping(service.backend.stopping)
        return {"status": "ok"}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def known(_: Request, error: ApiError) -> Response:
        return _as_response(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _as_response(_of_validation(error.errors()))

    @app.exception_handler(HTTPException)
    async def of_http(request: Request, error: HTTPException) -> Response:
        message = f"{request.method} {request.url.path}: {error.detail}"
        return _as_response(ApiError(error.status_code, message, headers=error.headers))

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        return _as_response(ApiError(500, f"the server failed: {type(error).__name__}"))


def _as_response(error: ApiError) -> Response:
    # ASCII: a message may quote half a surrogate pair, which is no UTF-8.
    return Response(
        json.dumps(error.body),
        status_code=error.status,
        headers=error.headers,
        media_type="application/json",
    )


def _of_validation(problems: Sequence[Any]) -> ApiError:
    """One problem, as OpenAI would name its field."""
    # Of the kinds that a field may have, the one that the value came closest to.
    problem = max(problems, key=lambda one: len(one["loc"]))
    where = [str(part) for part in problem["loc"][1:]]
    # Behind the field's name come the kinds that pydantic tried.
    param = where[0] if where else None
    if problem["type"] == "json_invalid":
        return ApiError(400, f"the body is no JSON: {problem['ctx']['error']}")
    if problem["type"] == "extra_forbidden":
        name = ".".join(where)
        return ApiError(
            400, f"unknown field '{name}': leave it out", param=param, code="unknown_parameter"
        )
    if problem["type"] == "missing":
        what = f"'{'.'.join(where)}' is missing" if where else "the body is missing"
        return ApiError(400, what, param=param, code="missing_required_parameter")
    message = problem["msg"].removeprefix("Value error, ")
    return ApiError(400, f"{'.'.join(where) or 'request'}: {message}", param=param)
