import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tools.plumb.pool.config import Server
from tools.plumb.pool.engine import parts
from tools.plumb.pool.engine.accounts import Account, Accounts
from tools.plumb.pool.engine.parts import Part
from tools.plumb.pool.home import Home
from tools.plumb.pool.isolation import reader

SERVICE, WORKER = Account("service", 61_001, 61_001), Account("worker", 61_002, 61_002)
PROGRAMS = parts.Programs(Path("/bin"), Path("/postgres"), Path("/python"), ())


def store() -> Part:
    return parts.files(Home(Path("/home")), Server(), PROGRAMS)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, which pytest's is not."""
    with TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_where_all_is_one_users_nothing_changes() -> None:
    assert reader.give([store()], Accounts(), Path(sys.executable)) == ([store()], "")


def test_a_python_that_cannot_leaves_the_store_as_it_was_and_says_so() -> None:
    given = reader.give([store()], Accounts(SERVICE, WORKER), Path("/bin/false"))

    assert given == ([store()], "status 1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's pool has two users")
def test_the_store_reads_what_tests_alone_may_read_and_nobody_elses(open_folder: Path) -> None:
    names = {"tests": WORKER.uid, "roots": 0, "another's": 61_003}
    for name, uid in names.items():
        folder = open_folder / name
        folder.mkdir(mode=0o700)
        (folder / "file").write_text(name)
        (folder / "file").chmod(0o600)
        for path in (folder / "file", folder):
            os.chown(path, uid, uid)
    (given,), why = reader.give([store()], Accounts(SERVICE, WORKER), Path(sys.executable))
    if why:
        pytest.skip(f"this machine gives no user namespace: {why}")
    prefix = given.command[: -len(store().command)]

    files = [str(open_folder / name / "file") for name in names]
    done = subprocess.run(
        [*prefix, "/bin/sh", "-c", 'id -u; cat "$@"; echo x >> "$1"', "-", *files],
        capture_output=True,
        text=True,
        check=False,
    )

    # It reads, and neither writes nor reads more.
    assert done.stdout == f"{SERVICE.uid}\ntests"
    assert done.stderr.count("Permission denied") == 3
    assert (open_folder / "tests/file").read_text() == "tests"
    assert given.user == "root"
