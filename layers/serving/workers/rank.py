"""The process of a rank other than 0: it runs what rank 0 runs."""

from __future__ import annotations

import zmq

from layers.serving.messages import Ready
from layers.serving.options import Options
from layers.serving.running.ranks import follow
from layers.serving.workers.endpoints import Endpoints, inbox, outbox, tell
from layers.serving.workers.loading import load
from layers.serving.workers.scheduler import report_failure


def run(rank: int, options: Options, endpoints: Endpoints) -> None:
    """Works until it is told to stop; tells the server why if it cannot start."""
    name = f"rank-{rank}"
    try:
        runner = load(options, rank, endpoints).runner
    except (ValueError, OSError) as error:
        report_failure(name, endpoints, error)
        return
    context = zmq.Context()
    commands = inbox(context, endpoints.of(name))
    tell(outbox(context, endpoints.of("server")), Ready(name))
    follow(runner, commands)
    context.destroy()
