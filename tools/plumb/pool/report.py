"""How a pool's state is printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from rich.markup import escape

from tools.plumb.pool import keys
from tools.plumb.pool.config import Server
from tools.plumb.pool.home import Home


class Format(StrEnum):
    """How the state is printed."""

    TEXT = "text"
    JSON = "json"


def host(server: Server) -> str:
    """How the server is reached from this machine, as it stands in an address."""
    name = server.reached_at
    return f"[{name}]" if ":" in name else name


def address(server: Server) -> str:
    """What Bazel's --remote_executor gets on this machine."""
    return f"{server.scheme}://{host(server)}:{server.port}"


def lines(state: Mapping[str, Any], home: Home) -> Iterator[str]:
    """The state in words, with rich's markup."""
    server = Server(**state["server"])
    yield f"[bold]{address(server)}[/bold]  {_access(server)}"
    yield f"[dim]{escape(str(home.folder))}, supervisor {state['pid']}[/dim]"
    for name, members in _by_pool(state).items():
        up = sum(one["state"] == "up" for one in members)
        word = "slot" if len(members) == 1 else "slots"
        count = f"{len(members)} {word}" if up == len(members) else f"{up} of {len(members)} {word}"
        kind = " (simulated: no such machine)" if members[0]["simulated"] else ""
        gpus = dict.fromkeys(str(one["gpu"]) for one in members if one["gpu"] is not None)
        on = f", GPU {', '.join(gpus)}" if gpus else ""
        yield f"  {escape(name)}: {count}{on}{kind}"
    for one in state["parts"]:
        if one["restarts"] or one["state"] != "up":
            ended = f"; it {one['last_end']}" if one["last_end"] else ""
            times = f", started again {one['restarts']} times" if one["restarts"] else ""
            yield f"  [yellow]{escape(one['name'])}: {one['state']}{times}{escape(ended)}[/yellow]"
    options = keys.bazel_options(home.keys, server.security)
    if address(server) != address(Server()):
        options = [f"--remote_executor={address(server)}", *options]
    yield escape(f"bazel test --config=remote {' '.join(options)}".rstrip() + " //testing/...")


def as_json(state: Mapping[str, Any], home: Home) -> str:
    """The state for another program."""
    server = Server(**state["server"])
    fields = {
        "address": address(server),
        "folder": str(home.folder),
        "options": keys.bazel_options(home.keys, server.security),
    }
    return json.dumps({**fields, **state}, indent=2)


def _by_pool(state: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in state["parts"]:
        if one["pool"] is not None:
            found.setdefault(one["pool"], []).append(one)
    return found


def _access(server: Server) -> str:
    return {
        "none": "this machine's users alone, without secrets",
        "tls": "whoever shows a client certificate",
        "jwt": f"whoever shows a token for '{server.audience}'",
    }[server.security]
