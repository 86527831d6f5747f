"""Brings a pool up and down, and makes its keys."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools.plumb.cache import Notify, make_folder, write_atomically
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pool import home as homes
from tools.plumb.pool import keys
from tools.plumb.pool.config import PoolConfig, Server
from tools.plumb.pool.engine import accounts, programs
from tools.plumb.pool.engine.handed import CLIENT, written
from tools.plumb.pool.engine.parts import Programs
from tools.plumb.pool.home import Home

_KEYMAKER = Path(__file__).parent / "engine/keymaker.py"
_SUPERVISOR = ("-m", "tools.plumb.pool.engine")
# Of a host's name, between dots.
_HOST_PART = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_UP_SECONDS = 180.0
_DOWN_SECONDS = 60.0
_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.1


def up(home: Home, config: PoolConfig, notify: Notify, client: int = 0) -> dict[str, Any]:
    """Starts the pool's supervisor and waits until every part answers; returns its state.

    client: a process with which the pool ends; 0 for none.

    Raises PlumbError if one is up, a port is taken, a key or the tests' user is missing, or a part
    does not start.
    """
    make_folder(home.folder)
    # Until it holds its own lock, what we start looks like something that was left.
    with homes.commanding(home, notify):
        return _up(home, config, notify, client)


def _up(home: Home, config: PoolConfig, notify: Notify, client: int) -> dict[str, Any]:
    with homes.held(home):
        _kill_left(home)
    server = config.server
    # Again in the supervisor, which cannot say what is wrong as soon.
    accounts.choose(server.user)
    lacking = keys.missing(home.keys, server.security)
    if lacking:
        raise PlumbError(
            f"[server] security = '{server.security}' needs {', '.join(lacking)} in {home.keys}: "
            "make them with `plumb pool keys HOST`, where HOST is what clients call this machine."
        )
    _require_free(server)
    found = programs.find(notify)
    write_atomically(home.plan, written(config, found))
    make_folder(home.logs)
    return _wait_up(home, _start(home, found, client), notify)


def _start(home: Home, found: Programs, client: int) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([*_own_path(), *found.packages])),
        homes.MARK: home.mark("supervisor"),
        CLIENT: str(client),
    }
    with (home.logs / "supervisor.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-B", *_SUPERVISOR, str(home.folder)],
            cwd=home.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # It outlives this command and its terminal.
            start_new_session=True,
        )


def _own_path() -> list[str]:
    return [entry for entry in sys.path if entry]


def _wait_up(home: Home, process: subprocess.Popen[bytes], notify: Notify) -> dict[str, Any]:
    notify("starting the pool")
    deadline = time.monotonic() + _UP_SECONDS
    try:
        while time.monotonic() < deadline:
            state = home.read_state()
            if state and state["state"] == "up" and state["pid"] == process.pid:
                return state
            if process.poll() is not None:
                raise _failure(home, process.returncode)
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        _end(process)
        raise
    _end(process)
    raise PlumbError(
        f"the pool was not up after {_UP_SECONDS:.0f} s: see `plumb pool logs`.",
        ExitCode.ENVIRONMENT,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_DOWN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _failure(home: Home, code: int) -> PlumbError:
    with suppress(OSError):
        text = (home.folder / "failure.txt").read_text(encoding="utf-8")
        cause = ExitCode.USAGE if code == ExitCode.USAGE else ExitCode.ENVIRONMENT
        return PlumbError(f"the pool did not come up: {text}", cause)
    return PlumbError(
        f"the pool's supervisor ended with status {code}: see {home.logs / 'supervisor.log'}.",
        ExitCode.ENVIRONMENT,
    )


def down(home: Home, notify: Notify) -> bool:
    """Ends the pool; False if none was up. Nothing of it runs and it has no lock afterwards.

    Raises PlumbError if the supervisor does not end in a minute.
    """
    if not home.folder.is_dir():
        return False
    with homes.commanding(home, notify):
        pid = home.supervisor()
        _signal(home, signal.SIGTERM)
        if not _wait(lambda: home.supervisor() is None, _DOWN_SECONDS):
            _signal(home, signal.SIGKILL)
            _wait(lambda: home.supervisor() is None, _KILL_SECONDS)
        if home.supervisor() is not None:
            raise PlumbError(
                f"process {home.supervisor()} holds {home.lock} and did not end: end it, and run "
                "`plumb pool down` again.",
                ExitCode.ENVIRONMENT,
            )
        left = _kill_left(home)
        # With it goes a lock file that one that was killed has left.
        with homes.held(home):
            home.state.unlink(missing_ok=True)
        return pid is not None or left > 0


def _signal(home: Home, number: int) -> None:
    """Signals the supervisor, and no other process that may have got its number."""
    pid = home.supervisor()
    if pid in homes.marked(home, "supervisor"):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill_left(home: Home) -> int:
    """Kills what a supervisor that was killed itself has left behind."""
    count = 0
    for _ in range(50):
        found = homes.marked(home)
        if not found:
            break
        count += len(found)
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    return count


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _require_free(server: Server) -> None:
    family = socket.AF_INET6 if ":" in server.address else socket.AF_INET
    wanted = [
        (family, server.address, server.port),
        (socket.AF_INET, "127.0.0.1", server.worker_port),
        (socket.AF_INET, "127.0.0.1", server.cas_port),
        (socket.AF_INET, "127.0.0.1", server.database_port),
    ]
    for kind, address, port in wanted:
        with socket.socket(kind, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                raise PlumbError(
                    f"port {port} of {address} cannot be had ({error.strerror}): end what listens "
                    "there, or name another in pool.toml, [server] port (three more follow it).",
                    ExitCode.ENVIRONMENT,
                ) from error


def make_keys(
    home: Home, names: Sequence[str], user: str | None, audience: str, days: int
) -> list[str]:
    """Makes the keys, or only a token for `user`; returns lines that say what to do with them.

    Raises PlumbError if a user's name cannot be a file's, or a name is no host's.
    """
    if user is not None and not re.fullmatch(r"[A-Za-z0-9_.@-]{1,64}", user):
        raise PlumbError(f"--token-for {user!r}: wanted letters, digits, '_', '.', '@' or '-'.")
    for name in names:
        if not _is_host(name):
            raise PlumbError(
                f"HOST {name!r} is no host name or IP address: wanted what clients call this "
                "machine, such as build.example or 192.0.2.7, each as a word of its own."
            )
    make_folder(home.folder)
    if user is not None:
        _run_keys({"token": [str(home.keys), user, audience, days]})
        file = home.keys / f"{user}.token"
        return [
            f"{file}: a token for {user}, good for {days} days and for '{audience}'",
            f'pass it as --remote_header="authorization=$(cat {file})"',
        ]
    anew = _run_keys({"make": [str(home.keys), list(names), days]})
    given = " ".join(
        str(home.keys / name) for name in ("authority.crt", "client.crt", "client.key")
    )
    return [
        f"{home.keys}: keys for localhost{''.join(f', {name}' for name in names)}, "
        f"good for {days} days",
        *(
            [f"the authority is new, and clients need its certificate again: {anew}"]
            if anew
            else []
        ),
        f'security = "tls": give clients {given}',
        'security = "jwt": give clients authority.crt and a token (keys --token-for NAME)',
        "a pool that is up takes new keys after `plumb pool down` and `up`",
    ]


def _is_host(name: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return len(name) <= 253 and all(_HOST_PART.fullmatch(part) for part in name.split("."))


def _run_keys(what: dict[str, Any]) -> str:
    """What the maker of keys printed."""
    found = programs.packages(lambda text: None)
    path = os.pathsep.join(dict.fromkeys([*_own_path(), *found]))
    done = subprocess.run(
        [sys.executable, "-P", "-B", _KEYMAKER, json.dumps(what)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PlumbError(done.stderr.strip() or "the keys could not be made")
    return done.stdout.strip()
