"""Several ranks run each batch together: rank 0 tells the others what to run, then runs it too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import torch
import zmq

from layers.serving.messages import Stop, encode
from layers.serving.running.batch import Batch
from layers.serving.running.kernels import KernelWatch
from layers.serving.running.runner import Runner


class Target(msgspec.Struct, frozen=True, tag="target"):
    """Run `Runner.target`."""

    batch: Batch


class DraftFirst(msgspec.Struct, frozen=True, tag="draft_first"):
    """Run `Runner.draft_first`."""

    input_ids: list[int]
    rows: list[int]


class DraftNext(msgspec.Struct, frozen=True, tag="draft_next"):
    """Run `Runner.draft_next`."""

    batch: Batch


class KernelsReady(msgspec.Struct, frozen=True, tag="kernels_ready"):
    """All kernels should be there by now."""


ToRank = Target | DraftFirst | DraftNext | KernelsReady | Stop


class RankGroup:
    """Rank 0's runner with the other ranks behind it.

    Ranks other than 0 compute the same logits and drop them: only rank 0 chooses tokens, so that no
    two ranks can disagree.

    Args:
        runner: of this rank.
        others: a PUSH socket to each other rank.
    """

    def __init__(self, runner: Runner, others: Sequence[zmq.Socket[bytes]]) -> None:
        self._runner = runner
        self._others = others

    def target(self, batch: Batch) -> torch.Tensor:
        """As `Runner.target`."""
        self._tell(Target(batch))
        return self._runner.target(batch)

    def draft_first(self, input_ids: list[int], rows: list[int]) -> torch.Tensor:
        """As `Runner.draft_first`."""
        self._tell(DraftFirst(input_ids, rows))
        return self._runner.draft_first(input_ids, rows)

    def draft_next(self, batch: Batch) -> torch.Tensor:
        """As `Runner.draft_next`."""
        self._tell(DraftNext(batch))
        return self._runner.draft_next(batch)

    def ready(self) -> None:
        """Tells the other ranks that no kernel should be new to them any more."""
        self._tell(KernelsReady())

    def stop(self) -> None:
        """Ends the other ranks."""
        self._tell(Stop())

    def _tell(self, command: ToRank) -> None:
        if self._others:
            data = encode(command)
            for socket in self._others:
                socket.send(data)


def follow(
    runner: Runner,
    commands: zmq.Socket[bytes],
    kernels: KernelWatch,
    tell_late: Callable[[int], None],
) -> None:
    """Runs what rank 0 runs, until it says stop.

    Args:
        runner: of this rank.
        commands: of rank 0.
        kernels: of this process.
        tell_late: takes the number of kernels that came late, where there are any.
    """
    decode = msgspec.msgpack.Decoder(ToRank).decode
    while True:
        command = decode(commands.recv())
        if isinstance(command, Target):
            runner.target(command.batch)
        elif isinstance(command, DraftFirst):
            runner.draft_first(command.input_ids, command.rows)
        elif isinstance(command, DraftNext):
            runner.draft_next(command.batch)
        elif isinstance(command, KernelsReady):
            kernels.expect_no_more()
        else:
            return
        if late := kernels.late_since():
            tell_late(late)
