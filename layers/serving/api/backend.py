"""The HTTP process's side of the workers: requests go out, tokens and texts come back."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator

import zmq
import zmq.asyncio

from layers.serving.api.errors import ApiError, overloaded, stopping
from layers.serving.api.metrics import Metrics
from layers.serving.messages import (
    Abort,
    Failed,
    Generate,
    LateKernels,
    Ready,
    SamplingParams,
    Stats,
    Stop,
    TextDelta,
    Texts,
    Tokenize,
    Tokenized,
    ToServer,
    decoder,
    encode,
)
from layers.serving.workers.endpoints import Endpoints, inbox, outbox


class StartError(RuntimeError):
    """A worker cannot start, for a reason that the user can mend."""


class Backend:
    """Sends and receives for all requests of this process.

    Args:
        endpoints: where the workers are.
        workers: their names.
        max_requests: texts in the making at most.
        metrics: to be kept.

    Attributes:
        vocab_size, context_length: of the model, once it is ready.
    """

    def __init__(
        self, endpoints: Endpoints, workers: list[str], max_requests: int, metrics: Metrics
    ) -> None:
        self._context = zmq.Context()
        # The reader alone is asyncio's: writing never blocks, as nothing limits what waits.
        self._inbox = zmq.asyncio.Socket.from_socket(inbox(self._context, endpoints.of("server")))
        self._outboxes = {name: outbox(self._context, endpoints.of(name)) for name in workers}
        self._tokenizers = itertools.cycle([w for w in workers if w.startswith("tokenizer-")])
        detokenizers = sum(w.startswith("detokenizer-") for w in workers)
        self._detokenizers = itertools.cycle(range(detokenizers))
        self._max_requests = max_requests
        self._metrics = metrics
        self._numbers = itertools.count()
        self._tickets: dict[int, asyncio.Future[Tokenized]] = {}
        self._texts: dict[int, asyncio.Queue[TextDelta | ApiError]] = {}
        self._admitted = 0
        self._stopping: str | None = None
        self.vocab_size = 0
        self.context_length = 0

    async def wait_ready(self) -> None:
        """Returns when every worker can work.

        Raises:
            StartError: one cannot.
        """
        waiting = set(self._outboxes)
        decode = decoder(ToServer).decode
        while waiting:
            message = decode(await self._inbox.recv())
            if isinstance(message, Failed):
                raise StartError(message.error)
            assert isinstance(message, Ready)
            waiting.discard(message.worker)
            if message.worker == "scheduler":
                self.vocab_size = message.vocab_size
                self.context_length = message.context_length

    async def receive(self) -> None:
        """Hands on what workers say, until cancelled."""
        decode = decoder(ToServer).decode
        while True:
            message = decode(await self._inbox.recv())
            if isinstance(message, Texts):
                for delta in message.deltas:
                    queue = self._texts.get(delta.choice)
                    if queue is not None:
                        queue.put_nowait(delta)
            elif isinstance(message, Tokenized):
                future = self._tickets.pop(message.ticket, None)
                if future is not None and not future.done():
                    future.set_result(message)
            elif isinstance(message, Stats):
                self._metrics.take(message)
            elif isinstance(message, LateKernels):
                self._metrics.late_kernels.inc(message.count)

    @property
    def num_in_flight(self) -> int:
        """Texts admitted and not yet let go."""
        return self._admitted

    @property
    def stopping(self) -> str | None:
        """Why no more requests are taken; None while they are."""
        return self._stopping

    def admit(self, count: int) -> None:
        """Takes `count` texts in; `leave` has to follow.

        Raises:
            ApiError: 429, there are too many already; 503, the server ends.
        """
        if self._stopping is not None:
            raise stopping(self._stopping)
        if count > self._max_requests:
            raise ApiError(
                400,
                f"the request asks for {count} texts, and the server makes {self._max_requests} at "
                f"a time: ask for fewer (n times the number of prompts)",
                param="n",
            )
        if self._admitted + count > self._max_requests:
            raise overloaded(self._max_requests)
        self._admitted += count
        self._metrics.in_flight.set(self._admitted)

    def leave(self, count: int) -> None:
        """Lets texts go that `admit` took in."""
        self._admitted -= count
        self._metrics.in_flight.set(self._admitted)

    async def tokenize(
        self, *, text: str | None = None, messages: list[dict[str, str]] | None = None
    ) -> list[int]:
        """The ids of a text, or of a chat.

        Raises:
            ApiError: 400, the model's template or tokenizer does not take them.
        """
        if self._stopping is not None:
            raise stopping(self._stopping)
        ticket = next(self._numbers)
        future: asyncio.Future[Tokenized] = asyncio.get_running_loop().create_future()
        self._tickets[ticket] = future
        self._tell(next(self._tokenizers), Tokenize(ticket, text, messages))
        try:
            answer = await future
        finally:
            self._tickets.pop(ticket, None)
        if answer.error is not None:
            raise ApiError(400, answer.error, param="messages" if text is None else "prompt")
        return answer.ids

    async def generate(
        self, ids: list[int], params: SamplingParams, stops: list[str]
    ) -> AsyncGenerator[TextDelta, None]:
        """A text's deltas; the last has `finish`. Ended early, the text is given up.

        Raises:
            ApiError: 500 or 503, the server ends before the text does.
        """
        if self._stopping is not None:
            raise stopping(self._stopping)
        choice = next(self._numbers)
        queue: asyncio.Queue[TextDelta | ApiError] = asyncio.Queue()
        detokenizer = next(self._detokenizers)
        self._tell("scheduler", Generate(choice, ids, params, detokenizer, stops))
        # Only now: what cannot be sent leaves nothing behind, and answers are read later.
        self._texts[choice] = queue
        self._metrics.prompt_tokens.inc(len(ids))
        is_finished = False
        last = 0.0
        try:
            while not is_finished:
                delta = await queue.get()
                if isinstance(delta, ApiError):
                    raise delta
                is_finished = bool(delta.finish)
                self._metrics.generated_tokens.inc(delta.tokens)
                now = time.monotonic()
                if last and delta.tokens:
                    self._metrics.inter_token.observe((now - last) / delta.tokens)
                last = now
                yield delta
        finally:
            del self._texts[choice]
            if not is_finished:
                self._tell("scheduler", Abort(choice))

    def refuse(self, why: str) -> None:
        """Takes no more requests; those in flight go on."""
        self._stopping = self._stopping or why

    def fail(self, error: ApiError) -> None:
        """Ends every request in flight."""
        self.refuse(error.message)
        for queue in self._texts.values():
            queue.put_nowait(error)
        for future in self._tickets.values():
            if not future.done():
                future.set_exception(error)

    def stop_workers(self) -> None:
        """Tells all workers to end; ranks other than 0 hear it from the scheduler."""
        for name in self._outboxes:
            if not name.startswith("rank-"):
                self._tell(name, Stop())

    def close(self) -> None:
        """Lets the sockets go."""
        self._inbox.close(linger=0)
        for socket in self._outboxes.values():
            socket.close(linger=0)
        self._context.term()

    def _tell(self, worker: str, message: object) -> None:
        self._outboxes[worker].send(encode(message))
