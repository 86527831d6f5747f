"""What `plumb pool` reads of pool.toml: the slots of this machine, and how the pool is reached.

The [[pool]] entries are those of `plumb plan`; `gpus`, `slots_per_gpu`, `simulated` and `env` say
what a plan need not know. [server] says where clients find the pool, and how they prove who they
are.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.plumb.errors import PlumbError
from tools.plumb.plan import config as shared
from tools.plumb.pool.home import MARK

PORT = 8980
SECURITIES = ("none", "tls", "jwt")
AUDIENCE = "plumbline"
_SIZES = {"M": 100, "G": 1, "T": 1}
"""The least of each unit: in less than that no build's files fit."""
_SIZE = re.compile(r"([1-9][0-9]{0,3})([MGT])")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}")
# What a slot is, which an entry's env would break.
_OF_SLOT = (MARK, "CUDA_VISIBLE_DEVICES", "PLUMBLINE_SLOT", "PLUMBLINE_SLOT_GPUS")
_KINDS: dict[str, type] = {
    "address": str,
    "port": int,
    "security": str,
    "audience": str,
    "user": str,
    "cache": str,
}


@dataclass(frozen=True)
class Slot:
    """What runs one test at a time: a worker.

    gpu: the number of its GPU, as CUDA_VISIBLE_DEVICES takes it; None where it has none.
    sharers: how many slots have that GPU, this one among them.
    simulated: it stands for a machine of its pool without being one. env: of its tests.
    """

    name: str
    pool: str
    gpu: int | None = None
    simulated: bool = False
    env: dict[str, str] = field(default_factory=dict)
    sharers: int = 1


@dataclass(frozen=True)
class Server:
    """Where and how clients reach the pool.

    address: an IP address of this machine. port: of the clients; the three after it are the
    pool's own, on the loopback alone. security: "none", "tls" (client certificates) or "jwt" (TLS,
    and tokens for `audience`). user: whom tests run as where root starts the pool. cache: most
    bytes kept, as "20G".
    """

    address: str = "127.0.0.1"
    port: int = PORT
    security: str = "none"
    audience: str = AUDIENCE
    user: str = "nobody"
    cache: str = "20G"

    @property
    def scheme(self) -> str:
        """Of the address that Bazel gets."""
        return "grpc" if self.security == "none" else "grpcs"

    @property
    def reached_at(self) -> str:
        """The address by which this machine reaches it: one, where it listens at all."""
        address = ipaddress.ip_address(self.address)
        if not address.is_unspecified:
            return self.address
        return "127.0.0.1" if address.version == 4 else "::1"

    @property
    def worker_port(self) -> int:
        """Where workers fetch work, on the loopback."""
        return self.port + 1

    @property
    def cas_port(self) -> int:
        """Where the files are, on the loopback."""
        return self.port + 2

    @property
    def database_port(self) -> int:
        """Of PostgreSQL, on the loopback."""
        return self.port + 3


@dataclass(frozen=True)
class PoolConfig:
    """A pool's server and the slots of this machine."""

    server: Server
    slots: tuple[Slot, ...]

    @property
    def pools(self) -> tuple[str, ...]:
        """Those that have a slot here, each once."""
        return tuple(dict.fromkeys(slot.pool for slot in self.slots))


def read(path: Path, known: Sequence[str]) -> PoolConfig:
    """The configuration in `path`; `known` are the workspace's pools, none if it declares none.

    Raises PlumbError naming what is wrong and what is wanted.
    """
    content = shared.content_of(path)
    slots = [
        slot
        for entry in shared.entries(path, content).values()
        for slot in _slots(path, entry, known)
    ]
    return PoolConfig(_server(path, content.get("server", {})), tuple(slots))


def of_machine(cards: Mapping[str, Sequence[int]], known: Mapping[str, str]) -> PoolConfig:
    """What a machine gives without a file: two CPU slots at least, and its GPUs, one a slot.

    cards: architecture, such as 'sm90', to the GPUs' numbers. known: pool to architecture.
    """
    cores = max(2, len(os.sched_getaffinity(0)))
    slots = [Slot(f"cpu-{number}", "cpu") for number in range(cores)]
    for pool, arch in known.items():
        slots += [Slot(f"{pool}-gpu{gpu}", pool, gpu) for gpu in cards.get(arch, ())]
    return PoolConfig(Server(), tuple(slots))


def _slots(path: Path, entry: Mapping[str, Any], known: Sequence[str]) -> list[Slot]:
    pool, env = entry["name"], dict(entry.get("env", {}))
    if known and pool not in known:
        near = difflib.get_close_matches(pool, known, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}."
        raise PlumbError(f"{path}: testing/pools.bzl has no pool '{pool}': {hint}")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", pool):
        raise PlumbError(
            f"{path}: pool name {pool!r} cannot be a label: use letters, digits, '_', '.', '-'."
        )
    _check_environment(f"{path}: pool '{pool}'", env)
    simulated = entry.get("simulated", False)
    if "gpus" in entry and simulated:
        raise PlumbError(
            f"{path}: pool '{pool}' is simulated and has gpus: give its slots, or leave out "
            "simulated."
        )
    if "gpus" in entry:
        sharers = entry.get("slots_per_gpu", 1)
        return [
            Slot(f"{pool}-gpu{gpu}{mark}", pool, gpu, False, env, sharers)
            # A GPU's second slot after every GPU's first, so that a few tests spread over them.
            for mark in ([f"-{n}" for n in range(sharers)] if sharers > 1 else [""])
            for gpu in entry["gpus"]
        ]
    word = "simulated-" if simulated else ""
    count = entry.get("slots", 1)
    return [Slot(f"{pool}-{word}{n}", pool, None, simulated, env) for n in range(count)]


def _check_environment(where: str, env: Mapping[str, str]) -> None:
    for name, text in env.items():
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise PlumbError(f"{where} has env.{name!r}, wanted a name of letters, digits and '_'.")
        if name in _OF_SLOT:
            raise PlumbError(
                f"{where} has env.{name}, which the pool gives each slot: leave it out, and say "
                "`gpus` for the GPUs of slots."
            )
        if "\0" in text:
            raise PlumbError(f"{where} has env.{name} = {text!r}, wanted a text without NUL.")


def _server(path: Path, table: Any) -> Server:
    if not isinstance(table, dict):
        raise PlumbError(f"{path}: server is {shared.shown(table)}, wanted a table [server].")
    for name, value in table.items():
        kind = _KINDS.get(name)
        if kind is None:
            near = difflib.get_close_matches(name, _KINDS, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"use {', '.join(_KINDS)}."
            raise PlumbError(f"{path}: [server] has '{name}', which means nothing: {hint}")
        if type(value) is not kind:
            word = "a whole number" if kind is int else "a text"
            raise PlumbError(f"{path}: [server] has {name} = {shared.shown(value)}, wanted {word}.")
    server = Server(**table)
    _check(path, server)
    return server


def _check(path: Path, server: Server) -> None:
    if not 1024 <= server.port <= 65532:
        raise PlumbError(
            f"{path}: [server] has port = {shared.shown(server.port)}, wanted 1024 to 65532: three "
            "more follow."
        )
    if server.security not in SECURITIES:
        raise PlumbError(
            f"{path}: [server] has security = '{server.security}', wanted one of "
            f"{', '.join(SECURITIES)}."
        )
    size = _SIZE.fullmatch(server.cache)
    if size is None or int(size[1]) < _SIZES[size[2]]:
        raise PlumbError(
            f"{path}: [server] has cache = {server.cache!r}, wanted such as '20G', '100M' at least."
        )
    if not _USER.fullmatch(server.user):
        raise PlumbError(
            f"{path}: [server] has user = {server.user!r}, wanted the name of one of this "
            "machine's users, such as 'nobody'."
        )
    if not server.audience or not server.audience.isprintable():
        raise PlumbError(
            f"{path}: [server] has audience = {server.audience!r}, wanted a word, such as "
            f"'{AUDIENCE}': the one that `plumb pool keys --audience` writes into tokens."
        )
    try:
        address = ipaddress.ip_address(server.address)
    except ValueError as error:
        raise PlumbError(
            f"{path}: [server] has address = '{server.address}', wanted an IP address of this "
            "machine, such as 127.0.0.1 or 0.0.0.0."
        ) from error
    if server.security == "none" and not address.is_loopback:
        raise PlumbError(
            f"{path}: [server] has address = '{server.address}' and security = 'none': whoever "
            "reaches that address could run programs here. Write security = 'tls' or 'jwt' and "
            "make keys with `plumb pool keys`, or listen at 127.0.0.1."
        )
