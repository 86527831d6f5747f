"""The process of a rank other than 0: it runs what rank 0 runs."""

from __future__ import annotations

import zmq

from layers.kernels.capability import BackendUnavailable
from layers.serving.messages import LateKernels, Ready
from layers.serving.options import Options
from layers.serving.running.kernels import KernelWatch
from layers.serving.running.ranks import follow
from layers.serving.workers.endpoints import Endpoints, inbox, outbox, tell
from layers.serving.workers.loading import load
from layers.serving.workers.scheduler import report_failure


def run(rank: int, options: Options, endpoints: Endpoints) -> None:
    """Works until it is told to stop; tells the server why if it cannot start."""
    name = f"rank-{rank}"
    kernels = KernelWatch(name)
    try:
        runner = load(options, rank, endpoints, kernels).runner
    except (BackendUnavailable, ValueError, OSError) as error:
        report_failure(name, endpoints, error)
        return
    context = zmq.Context()
    commands = inbox(context, endpoints.of(name))
    server = outbox(context, endpoints.of("server"))
    tell(server, Ready(name))
    follow(runner, commands, kernels, lambda count: tell(server, LateKernels(count)))
    context.destroy()
