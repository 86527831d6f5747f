"""Lets the store read what tests made for themselves alone, such as files of tempfile's (0600).

The store runs as another user than tests, and an output that it cannot read would fail its action.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tools.plumb.pool.engine.accounts import Accounts
from tools.plumb.pool.engine.parts import Part

# Its text, read before a mount namespace hides the file.
_PROGRAM = Path(__file__).with_name("as_reader.py").read_text(encoding="utf-8")


def give(parts: Iterable[Part], accounts: Accounts, python: Path) -> tuple[list[Part], str]:
    """The parts, the store with that right; if that cannot be, as they were, and why.

    Where everything runs as one user there is nothing to give.
    """
    given = list(parts)
    service, worker = accounts.service, accounts.worker
    if service is None or worker is None:
        return given, ""
    users = (service.uid, service.gid, worker.uid, worker.gid)
    prefix = (str(python), "-P", "-B", "-c", _PROGRAM, *map(str, users))
    done = subprocess.run(
        [*prefix, "/bin/true"], capture_output=True, text=True, check=False, cwd="/"
    )
    if done.returncode != 0:
        return given, done.stderr.strip()[-200:] or f"status {done.returncode}"
    return [
        replace(part, command=(*prefix, *part.command), user="root")
        if part.kind == "files"
        else part
        for part in given
    ], ""
