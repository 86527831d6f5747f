"""A /tmp of each worker's own, so that tests of two slots share no file that has a fixed name.

Made by util-linux's programs in a mount namespace: root's own, or a user's who needs no rights.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tools.plumb.pool.engine.accounts import Account
from tools.plumb.pool.engine.parts import Part

_SHARED = Path("/tmp")
# Of a user namespace as well, where there is one; the right to mount ends where the worker begins.
_OWN = ("unshare", "--user", "--map-current-user", "--keep-caps", "--mount")
_DROP = ("setpriv", "--inh-caps=-all", "--ambient-caps=-all")
# No user namespace: in one, the store's files would seem to be nobody's, and buildbox, as nobody,
# would fail to remove what it staged. Who becomes another user asks for its parent's end anew.
_ROOTS = ("unshare", "--mount")
_BECOME = ("setpriv", "--clear-groups", "--inh-caps=-all", "--pdeathsig=KILL")


def _prefix(account: Account | None) -> tuple[str, ...]:
    enter, leave = (_OWN, [*_DROP]) if account is None else (_ROOTS, [*_BECOME])
    if account is not None:
        leave += [f"--reuid={account.uid}", f"--regid={account.gid}"]
    mount = f'mount --bind "$TMPDIR" /tmp && exec {shlex.join(leave)} "$@"'
    return (*enter, "sh", "-c", mount, "sh")


def give(
    parts: Iterable[Part], account: Account | None, needed: Iterable[Path]
) -> tuple[list[Part], str]:
    """The parts, workers with a /tmp of their own; if that cannot be, as they were, and why.

    account: whom workers run as, None for this user. needed: paths that workers have to see.
    """
    given = list(parts)
    workers = [part for part in given if part.kind == "worker"]
    for path in needed:
        if path.is_relative_to(_SHARED):
            return given, f"{path} lies there"
    for worker in workers:
        for name, text in worker.slot.env.items() if worker.slot else ():
            if any(Path(word).is_relative_to(_SHARED) for word in text.split(os.pathsep)):
                return given, f"env.{name} of pool.toml names {text}"
    if not workers:
        return given, ""
    prefix = _prefix(account)
    trouble = _trouble([*prefix, "true"], workers[0])
    if trouble:
        return given, trouble
    user = "worker" if account is None else "root"
    return [
        replace(part, command=(*prefix, *part.command), user=user)
        if part.kind == "worker"
        else part
        for part in given
    ], ""


def _trouble(command: Sequence[str], worker: Part) -> str:
    """What this machine lacks for it; empty if it works for that worker's folder."""
    try:
        done = subprocess.run(
            command, env=worker.environment, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    return (done.stderr.strip() or f"status {done.returncode}") if done.returncode else ""
