"""The HTTP process: starts when all workers can work, ends when told to or when one is gone."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator

import uvicorn

from layers.serving.api.app import make_app
from layers.serving.api.backend import Backend, StartError
from layers.serving.api.errors import ApiError, stopping
from layers.serving.api.metrics import Metrics
from layers.serving.api.service import Service
from layers.serving.options import OptionError, Options
from layers.serving.workers.endpoints import Endpoints
from layers.serving.workers.process import END_SIGNALS, Worker, release_signals
from layers.serving.workers.supervisor import unwatch, watch

# A stop lets answers under way end, but does not wait for them longer than this.
DRAIN_SECONDS = 5
# In which those that were given up then are told so.
_TELL_SECONDS = 2
# An idle connection is the client's to close: httpx and OpenAI's client do so after 5 s, and what
# they send on one that the server closes at that very time is lost.
KEEP_ALIVE_SECONDS = 75
# Clients that wait to be accepted.
_BACKLOG = 2048
# In which the last word of a worker that ended is read.
_WORD_SECONDS = 5
# In which a signal that ended a worker reaches this process too, if it was sent to all.
_SIGNAL_SECONDS = 0.5
_STOPPING = "the server is stopping"


class _Uvicorn(uvicorn.Server):
    """Without uvicorn's signal handlers, which raise the signal again behind a clean end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are `HttpServer`'s."""
        yield


class HttpServer:
    """One server's life.

    Args:
        options: of the command line.
        endpoints: where the workers are.
        workers: running already.
    """

    def __init__(self, options: Options, endpoints: Endpoints, workers: list[Worker]) -> None:
        self._options = options
        self._workers = workers
        self._metrics = Metrics()
        names = [worker.name for worker in workers]
        self._backend = Backend(endpoints, names, options.max_requests, self._metrics)
        self._ended = asyncio.Event()
        self._is_ready = False
        self.exit_code = 0

    async def run(self) -> None:
        """Serves until a signal or a worker's death; `exit_code` says which.

        Raises:
            StartError: a worker cannot start.
            OptionError: the address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        for number in END_SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        release_signals()
        listener = _listen(self._options.host, self._options.port)
        watch(loop, self._workers, self._died)
        try:
            if await self._unless_ended(self._backend.wait_ready()):
                self._is_ready = True
                await self._serve(listener)
        finally:
            unwatch(loop, self._workers)
            if not self.exit_code:
                self._backend.stop_workers()
            listener.close()

    @property
    def num_in_flight(self) -> int:
        """Texts taken and not yet finished."""
        return self._backend.num_in_flight

    def close(self) -> None:
        """Lets the sockets go, once the workers have ended."""
        self._backend.close()

    async def _serve(self, listener: socket.socket) -> None:
        service = Service(self._backend, self._metrics, self._options.served_model_name)
        config = uvicorn.Config(
            make_app(service, self._options.max_body_bytes),
            access_log=False,
            lifespan="off",
            log_level="warning",
            timeout_graceful_shutdown=DRAIN_SECONDS + _TELL_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        server = _Uvicorn(config)
        receiving = asyncio.create_task(self._backend.receive())
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        # Before the ready line: who reads it may connect at once.
        listener.listen(_BACKLOG)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        print(f"Serving {service.model} at http://{shown}:{port}", flush=True)
        ended = asyncio.create_task(self._ended.wait())
        await asyncio.wait((receiving, serving, ended), return_when=asyncio.FIRST_COMPLETED)
        self._backend.refuse(_STOPPING)
        server.should_exit = True
        late = stopping(f"{_STOPPING}, and waits {DRAIN_SECONDS} s for a text: ask another one")
        drained = asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._backend.fail, late)
        await serving
        drained.cancel()
        for task in (receiving, ended):
            task.cancel()
        results = await asyncio.gather(receiving, ended, return_exceptions=True)
        if isinstance(results[0], Exception):
            raise results[0]

    async def _unless_ended(self, ready: object) -> bool:
        waiting = asyncio.ensure_future(ready)  # type: ignore[call-overload]
        ended = asyncio.create_task(self._ended.wait())
        await asyncio.wait((waiting, ended), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            ended.cancel()
        if waiting.done():
            waiting.result()
            return not self._ended.is_set()
        waiting.cancel()
        return False

    def _signalled(self, number: int) -> None:
        if not self._ended.is_set():
            name, texts = signal.Signals(number).name, self.num_in_flight
            print(f"{name}: {_STOPPING}; texts in flight: {texts}.", file=sys.stderr, flush=True)
        self._ended.set()
        for worker in self._workers:
            if worker.process.exitcode == -signal.SIGTERM:
                self._end_by(worker)

    def _died(self, worker: Worker) -> None:
        loop = asyncio.get_running_loop()
        if worker.process.exitcode == 0 and not self._is_ready:
            # It has said why it cannot start, and its end may be noticed before its word is read.
            loop.call_later(_WORD_SECONDS, self._end_by, worker)
        elif worker.process.exitcode == -signal.SIGTERM and not self._ended.is_set():
            loop.call_later(_SIGNAL_SECONDS, self._end_by, worker)
        else:
            self._end_by(worker)

    def _end_by(self, worker: Worker) -> None:
        if self.exit_code:
            return  # Of several that die the first is told.
        if self._ended.is_set() and worker.process.exitcode == -signal.SIGTERM:
            # Whoever ended the server has ended its workers as well: no text will end.
            self._backend.fail(stopping(f"{_STOPPING}, and worker {worker.name} {worker.end}"))
            return
        message = f"worker {worker.name} (pid {worker.pid}) {worker.end}"
        print(f"{message}; stopping the server.", file=sys.stderr, flush=True)
        self.exit_code = 1
        self._backend.fail(ApiError(500, f"{message}: the server stops", code="worker_died"))
        self._ended.set()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OptionError(
            f"cannot listen on {host} port {port}: {error.strerror}; wanted an address of this "
            "machine as --host, and as --port one that is free, or 0 for any"
        ) from error
    return listener


__all__ = ["HttpServer", "StartError"]
