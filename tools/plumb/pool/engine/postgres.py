"""The pool's own PostgreSQL: made once in its folder, waited for, and given its tables."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pool.engine.accounts import Account
from tools.plumb.pool.engine.parts import Programs

_SECONDS = 60
# Its text, read before a mount namespace hides the file, as all sources of plumb's own.
_MIGRATE = Path(__file__).with_name("migrate.py").read_text(encoding="utf-8")


def password(folder: Path) -> str:
    """The secret of this pool's database, made once; readable by the owner alone."""
    file = folder / "password"
    with suppress(FileNotFoundError):
        return file.read_text(encoding="ascii").strip()
    made = secrets.token_hex(24)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(f"{made}\n")
    return made


def make(folder: Path, programs: Programs, account: Account | None, secret: str) -> None:
    """Makes the data folder if there is none yet.

    Raises PlumbError with initdb's own words.
    """
    data = folder / "data"
    if (data / "PG_VERSION").is_file():
        return
    # initdb reads the password from a file that its user can read.
    given = folder / "password.initdb"
    given.touch(mode=0o600)
    given.write_text(secret, encoding="ascii")
    if account is not None:
        os.chown(given, account.uid, account.gid)
    try:
        done = subprocess.run(
            [
                programs.postgres / "initdb",
                *("-D", data, "-U", "buildgrid", f"--pwfile={given}"),
                *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"),
            ],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else [],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        given.unlink(missing_ok=True)
    if done.returncode != 0:
        raise PlumbError(
            f"{programs.postgres / 'initdb'} failed: {(done.stderr or done.stdout).strip()[-800:]}",
            ExitCode.ENVIRONMENT,
        )


def prepare(address: str, programs: Programs, log: Path, is_alive: Callable[[], bool]) -> None:
    """Waits until the server takes connections, then makes or migrates BuildGrid's tables.

    address: as BuildGrid takes it. Raises PlumbError if that fails or takes longer than a minute.
    """
    command = [str(programs.python), "-P", "-B", "-c", _MIGRATE]
    environment = {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(programs.packages),
    }
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=stream, stderr=stream
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(address.encode())
        deadline = time.monotonic() + _SECONDS
        try:
            while process.poll() is None and time.monotonic() < deadline and is_alive():
                time.sleep(0.05)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode != 0:
        raise PlumbError(
            f"the database was not ready after {_SECONDS} s, or its tables could not be made; see "
            f"{log} and `plumb pool logs database`.",
            ExitCode.ENVIRONMENT,
        )
