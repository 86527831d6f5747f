"""`python -m tools.plumb.pool.engine HOME`: the supervisor of what HOME/plan.json describes."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

from tools.plumb import cache
from tools.plumb.errors import PlumbError
from tools.plumb.pool import keys
from tools.plumb.pool.config import PoolConfig
from tools.plumb.pool.engine import accounts as users
from tools.plumb.pool.engine import buildgrid, handed, parts, postgres
from tools.plumb.pool.engine.disk import Disk
from tools.plumb.pool.engine.supervisor import Supervisor
from tools.plumb.pool.home import Home, held
from tools.plumb.pool.isolation import private_tmp, reader


def run(home: Home) -> None:
    """Runs the pool until it is told to stop. Raises PlumbError if it cannot be brought up."""
    config, programs = handed.read(home)
    accounts = users.choose(config.server.user)
    with held(home):
        every = parts.of(home, config, programs)
        secret = _make_folders(home, config, every, accounts)
        # Before any thread, as a namespace is a process's.
        of_workers = [
            home.folder,
            programs.buildbox.resolve().parent,
            *map(Path, programs.pythons),
        ]
        users.make_reachable(
            [
                *of_workers,
                programs.postgres.resolve().parents[2],
                *map(Path, programs.packages),
            ],
            accounts,
        )
        every, shared = private_tmp.give(every, accounts.worker, of_workers)
        every, unread = reader.give(every, accounts, programs.python)
        postgres.make(home.folder / "database", programs, accounts.service, secret)
        address = buildgrid.connection_string(config.server, secret)
        log = home.logs / "database.log"
        supervisor = Supervisor(
            home,
            every,
            accounts,
            {"server": asdict(config.server), "pools": config.pools},
            {"database": lambda alive: postgres.prepare(address, programs, log, alive)},
            {"files": Disk(parts.store(home))},
        )
        if shared:
            supervisor.say(f"tests of all slots share this machine's /tmp: {shared}")
        if unread:
            supervisor.say(f"outputs that only the tests' user can read fail: {unread}")
        supervisor.client = int(os.environ.get(handed.CLIENT, "0")) or None
        supervisor.run()


def _make_folders(
    home: Home, config: PoolConfig, every: list[parts.Part], accounts: users.Accounts
) -> str:
    """Makes each part's folders, its user's own, and BuildGrid's files; returns the secret."""
    home.folder.chmod(0o755)
    home.logs.mkdir(exist_ok=True)
    for part in every:
        account = accounts.of(part.user)
        part.folder.mkdir(parents=True, exist_ok=True)
        own = [part.folder]
        if part.kind == "worker":
            own += [part.folder / "home", part.folder / "tmp"]
        for folder in own:
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755 if part.kind in ("files", "worker") else 0o700)
            if account is not None:
                os.chown(folder, account.uid, account.gid)
    secret = postgres.password(home.folder / "database")
    _write_for_buildgrid(home, config, secret, accounts.service)
    return secret


def _write_for_buildgrid(
    home: Home, config: PoolConfig, secret: str, account: users.Account | None
) -> None:
    """Its two configurations, and the server's part of the keys."""
    own = home.folder / "server"
    if config.server.security != "none":
        for name in keys.OF_SERVER:
            _write_secret(own / name, (home.keys / name).read_bytes(), account)
    for name in ("scheduler", "server"):
        text = buildgrid.configuration(name, config.server, config.pools, secret, own)
        _write_secret(home.folder / name / "buildgrid.yml", text.encode(), account)


def _write_secret(file: Path, content: bytes, account: users.Account | None) -> None:
    cache.write_atomically(file, content)
    file.chmod(0o600)
    if account is not None:
        os.chown(file, account.uid, account.gid)


def main() -> int:
    """Returns 0 after an orderly end; the cause of a failure goes to HOME/failure.txt."""
    home = Home(Path(sys.argv[1]))
    failure = home.folder / "failure.txt"
    failure.unlink(missing_ok=True)
    try:
        run(home)
    except PlumbError as error:
        cache.write_atomically(failure, str(error).encode())
        return int(error.code)
    except Exception:
        cache.write_atomically(failure, traceback.format_exc().encode())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
