"""Where the processes find each other: ZeroMQ sockets in a folder of this server alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import zmq

from layers.serving.messages import encode

# Messages wait in memory: what may be under way is limited where requests come in.
_UNLIMITED = 0
# At its end a process waits so long for its last words to be read.
LINGER_MS = 2000


@dataclass(frozen=True)
class Endpoints:
    """Addresses, of which each is bound by the process that reads there.

    Args:
        folder: short enough for the system's limit of 107 bytes for a socket's path.
    """

    folder: Path

    def of(self, worker: str) -> str:
        """Of a worker by its name, or of the HTTP process: "server"."""
        return f"ipc://{self.folder}/{worker}"

    @property
    def meeting(self) -> str:
        """Where the ranks meet, for torch.distributed."""
        return f"file://{self.folder}/meeting"


def inbox(context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes]:
    """A socket to read from, of all who write to the address."""
    socket = context.socket(zmq.PULL)
    socket.set_hwm(_UNLIMITED)
    socket.bind(address)
    return socket


def outbox(context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes]:
    """A socket to write to; what is written before the reader is there waits."""
    socket = context.socket(zmq.PUSH)
    socket.set_hwm(_UNLIMITED)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.connect(address)
    return socket


def tell(socket: zmq.Socket[bytes], message: object) -> None:
    """Sends a message."""
    socket.send(encode(message))


def received(
    socket: zmq.Socket[bytes], decoder: msgspec.msgpack.Decoder[object], *, wait: bool
) -> Iterator[object]:
    """All messages that are there; with `wait` at least one."""
    flags = 0 if wait else zmq.NOBLOCK
    while True:
        try:
            data = socket.recv(flags)
        except zmq.Again:
            return
        yield decoder.decode(data)
        flags = zmq.NOBLOCK
