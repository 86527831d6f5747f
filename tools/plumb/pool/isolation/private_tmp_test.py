import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tools.plumb.pool.config import Server, Slot
from tools.plumb.pool.engine import parts
from tools.plumb.pool.engine.accounts import Account
from tools.plumb.pool.engine.parts import Part
from tools.plumb.pool.home import Home
from tools.plumb.pool.isolation import private_tmp

PROGRAMS = parts.Programs(Path("/buildbox"), Path("/postgres"), Path("/python"), ())


def worker(folder: Path, command: tuple[str, ...], slot: Slot | None = None) -> Part:
    made = parts.worker(Home(folder), Server(), PROGRAMS, slot or Slot("cpu-0", "cpu"))
    Path(made.environment["TMPDIR"]).mkdir(parents=True)
    return replace(made, command=command)


@pytest.mark.parametrize("account", [None, Account("worker", 61_002, 61_002)])
def test_a_worker_has_a_tmp_of_its_own_and_no_right_to_mount(
    tmp_path: Path, account: Account | None
) -> None:
    if account is not None and os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    name = f"private-tmp-test-{os.getpid()}"
    one = worker(tmp_path, ("sh", "-c", f"id -u; touch /tmp/{name}; grep CapEff /proc/self/status"))
    Path(one.environment["TMPDIR"]).chmod(0o777)

    (given,), shared = private_tmp.give([one], account, [])

    if shared:
        pytest.skip(f"this machine gives no private /tmp: {shared}")
    done = subprocess.run(
        given.command, env=one.environment, capture_output=True, text=True, check=False
    )
    assert (Path(one.environment["TMPDIR"]) / name).exists(), done.stderr
    assert not Path("/tmp", name).exists()
    user, _, rights = done.stdout.split()
    assert (int(user), given.user) == (
        (os.geteuid(), "worker") if account is None else (account.uid, "root")
    )
    # Root keeps its rights, which hold in its own namespace alone; but root's workers are not root.
    assert int(rights, 16) == 0 or int(user) == 0


@pytest.mark.parametrize(
    ("needed", "env", "said"),
    [
        (Path("/tmp/python"), {}, "/tmp/python lies there"),
        (Path("/usr"), {"A": "/tmp/a"}, "env.A of pool.toml names /tmp/a"),
        (Path("/var/tmp"), {"A": "/var/tmp/a", "B": "/x:/tmp"}, "env.B of pool.toml names /x:/tmp"),
    ],
)
def test_a_worker_that_needs_what_lies_in_tmp_shares_it(
    tmp_path: Path, needed: Path, env: dict[str, str], said: str
) -> None:
    one = worker(tmp_path, ("true",), Slot("cpu-0", "cpu", env=env))

    assert private_tmp.give([one], None, [needed]) == ([one], said)


def test_a_machine_that_cannot_shares_it_and_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = worker(tmp_path, ("true",))
    monkeypatch.setattr(private_tmp, "_OWN", ("sh", "-c", "echo not permitted >&2; exit 1"))

    assert private_tmp.give([one], None, []) == ([one], "not permitted")
