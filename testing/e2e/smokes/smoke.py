"""A smoke: what it serves, how, and what it asserts of the running server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from testing.e2e.checkpoints.folders import folder
from testing.e2e.faults.fault import VARIABLE
from testing.e2e.smokes.figures import Figures
from testing.harness.device import pool
from testing.serving.server import Server, running_server

START_SECONDS = 120
"""Of a start on a busy machine; what takes longer hangs."""


@dataclass(frozen=True)
class Smoke:
    """One server start, and figures of it.

    checkpoint: of `testing.e2e.checkpoints.folders`.
    arguments: of the server's command line.
    examine: asks the server, and puts what it sees into the figures.
    assertions: how many of its figures have bounds; they share the false-failure rate.
    """

    name: str
    checkpoint: str
    arguments: tuple[str, ...]
    examine: Callable[[Server, Figures], None]
    assertions: int

    def run(self, fault: str = "") -> Figures:
        """Starts, examines, stops.

        fault: to be planted.

        Raises:
            AssertionError: a figure is beyond its bound.
        """
        figures = self.figures(fault)
        figures.finish()
        return figures

    def figures(self, fault: str = "") -> Figures:
        """As `run`, without looking whether they are within their bounds."""
        figures = Figures(self.name, self.checkpoint, self.assertions)
        with self.server(fault) as server:
            self.examine(server, figures)
        return figures

    @contextmanager
    def server(self, fault: str = "") -> Iterator[Server]:
        """The running server."""
        device = "cpu" if pool() == "cpu" else "cuda"
        # A thread a rank: models this small gain nothing by more, and more wait for each other.
        arguments = ("--device", device, "--torch-threads", "1", *self.arguments)
        with running_server(
            folder(self.checkpoint),
            *arguments,
            seconds=START_SECONDS,
            env={VARIABLE: fault} if fault else {},
            module="testing.e2e.faults.serve" if fault else "layers.serving",
        ) as server:
            yield server
