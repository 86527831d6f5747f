"""The processes of a pool: what each is started with, and how one sees that it is ready."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from tools.plumb.pool.config import PoolConfig, Server, Slot
from tools.plumb.pool.home import MARK, Home

_GRACE_SECONDS = 5


@dataclass(frozen=True)
class Programs:
    """What the parts are made of.

    buildbox: the folder of buildbox-casd and its like. postgres: of postgres and initdb.
    python: the interpreter, and packages: its import path, that find BuildGrid. pythons: where
    interpreters that tests may name are installed.
    """

    buildbox: Path
    postgres: Path
    python: Path
    packages: tuple[str, ...]
    pythons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One process.

    kind: "database", "files", "scheduler", "server" or "worker". port: where it answers once it is
    ready; None if nowhere. stop: the signal that ends it in order. user: "service", "worker", or
    "root" for one that becomes another by itself. address: of this machine, which has that port.
    """

    name: str
    kind: str
    command: tuple[str, ...]
    folder: Path
    environment: dict[str, str]
    port: int | None = None
    stop: str = "SIGTERM"
    user: str = "service"
    slot: Slot | None = None
    address: str = "127.0.0.1"


def is_ready(part: Part) -> bool:
    """Whether the part answers at its port; one without a port is ready as it is."""
    if part.port is None:
        return True
    try:
        with socket.create_connection((part.address, part.port), timeout=1):
            return True
    except OSError:
        return False


def database(home: Home, server: Server, programs: Programs) -> Part:
    """PostgreSQL on the loopback, with data of its own; no socket, whose path may be too long."""
    folder = home.folder / "database"
    command = (
        str(programs.postgres / "postgres"),
        *("-D", str(folder / "data"), "-h", "127.0.0.1", "-p", str(server.database_port)),
        *("-c", "unix_socket_directories="),
        *("-c", "max_connections=200"),
        # A test's result lies in the files' store; what the database knows, a client asks again.
        *("-c", "synchronous_commit=off"),
    )
    return Part(
        "database",
        "database",
        command,
        folder,
        _environment(home, "database", folder),
        server.database_port,
        # "Fast": it does not wait for clients to leave.
        stop="SIGINT",
    )


def store(home: Home) -> Path:
    """The folder that casd keeps everything in."""
    return home.folder / "files" / "cache"


def files(home: Home, server: Server, programs: Programs) -> Part:
    """The store of files, of which each host has one: inputs, outputs and results of actions."""
    folder = home.folder / "files"
    command = (
        str(programs.buildbox / "buildbox-casd"),
        f"--bind=127.0.0.1:{server.cas_port}",
        f"--quota-high={server.cache}",
        "--reserved=1G",
        "--log-level=warning",
        str(store(home)),
    )
    environment = _environment(home, "files", folder)
    return Part("files", "files", command, folder, environment, server.cas_port)


def buildgrid(home: Home, server: Server, programs: Programs, name: str) -> Part:
    """BuildGrid as `name`: "scheduler", which workers ask, or "server", which clients ask.

    Two processes, so that an upload of thousands of files cannot keep workers from reporting.
    """
    folder = home.folder / name
    command = (
        str(programs.python),
        *("-P", "-B", "-c", "from buildgrid.server.app import cli; cli()"),
        *("server", "start", "-v", str(folder / "buildgrid.yml")),
    )
    environment = _environment(home, name, folder)
    environment["PYTHONPATH"] = ":".join(programs.packages)
    if name == "scheduler":
        return Part(name, name, command, folder, environment, server.worker_port)
    return Part(name, name, command, folder, environment, server.port, address=server.reached_at)


def worker(home: Home, server: Server, programs: Programs, slot: Slot) -> Part:
    """The worker of a slot, which sees the GPU of the slot alone, or none."""
    folder = home.folder / "slots" / slot.name
    platform = [f"Pool={slot.pool}"]
    if slot.simulated:
        platform.append("Simulated=yes")
    command = (
        str(programs.buildbox / "buildbox-worker"),
        f"--bots-remote=http://127.0.0.1:{server.worker_port}",
        f"--cas-remote=http://127.0.0.1:{server.cas_port}",
        f"--buildbox-run={programs.buildbox / 'buildbox-run-hosttools'}",
        "--runner-arg=--staging-mode=copy-or-link",
        f"--runner-arg=--graceful-shutdown-seconds={_GRACE_SECONDS}",
        # A scheduler that restarts is asked again, for half a minute.
        *("--bots-retry-limit=6", "--cas-retry-limit=6"),
        f"--graceful-shutdown-timeout={_GRACE_SECONDS}",
        "--log-level=warning",
        *(word for pair in platform for word in ("--platform", pair)),
        "--concurrent-jobs=1",
        slot.name,
    )
    environment = _environment(home, slot.name, folder / "home")
    environment["TMPDIR"] = str(folder / "tmp")
    gpus = "" if slot.gpu is None else str(slot.gpu)
    environment["CUDA_VISIBLE_DEVICES"] = environment["PLUMBLINE_SLOT_GPUS"] = gpus
    environment["PLUMBLINE_SLOT"] = slot.name
    # A test holds its share of the GPU against tests outside the pool, too.
    environment["PLUMBLINE_TESTS_PER_GPU"] = str(slot.sharers)
    environment |= slot.env
    return Part(slot.name, "worker", command, folder, environment, None, "SIGTERM", "worker", slot)


def of(home: Home, config: PoolConfig, programs: Programs) -> list[Part]:
    """All parts, in the order in which they need one another."""
    server = config.server
    return [
        database(home, server, programs),
        files(home, server, programs),
        buildgrid(home, server, programs, "scheduler"),
        buildgrid(home, server, programs, "server"),
        *(worker(home, server, programs, slot) for slot in config.slots),
    ]


def _environment(home: Home, name: str, own: Path) -> dict[str, str]:
    """Of a part: what Bazel's strict environment has, and a home of its own."""
    return {
        "HOME": str(own),
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        MARK: home.mark(name),
    }
