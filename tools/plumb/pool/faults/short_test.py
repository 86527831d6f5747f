"""The telling ones of each part's faults, quick enough for each commit."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.plumb.pool.faults.real_pool import RealPool, real_pool

TOML = """
[server]
port = PORT

[[pool]]
name = "cpu"
env = {NOTES = FOLDER}

[[pool]]
name = "h100"
simulated = true
env = {NOTES = FOLDER}
"""
BUILD = """
sh_test(name = "slow", size = "small", srcs = ["check.sh"], args = ["cpu", "4"],
        exec_properties = {"test.Pool": "cpu"})
sh_test(name = "gpu", size = "small", srcs = ["check.sh"], args = ["h100"],
        exec_properties = {"test.Pool": "h100"})
sh_test(name = "closed", size = "small", srcs = ["closed.sh"],
        exec_properties = {"test.Pool": "cpu"})
sh_test(name = "nowhere", size = "small", srcs = ["check.sh"], args = ["b200"],
        exec_properties = {"test.Pool": "b200"})
"""


# As tempfile's files are: for their own user alone.
CLOSED = """\
#!/bin/sh
umask 077
mkdir "$TEST_UNDECLARED_OUTPUTS_DIR/folder"
echo closed > "$TEST_UNDECLARED_OUTPUTS_DIR/folder/file"
touch "/tmp/$1"
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool() as made:
        made.write(BUILD, **{"closed.sh": CLOSED})
        (made.workspace / "closed.sh").chmod(0o755)
        made.up(TOML.replace("PORT", str(made.port)))
        yield made


def test_a_test_whose_worker_is_killed_runs_again_and_never_twice_at_a_time(pool: RealPool) -> None:
    pool.forget()

    with pool.testing("//:slow", "//:gpu") as running:
        running.wait(lambda: "start //:slow cpu-0" in pool.notes, "start of the test")
        pool.kill("cpu-0")
        outcome = running.outcome()

    assert outcome.statuses == {"//:slow": "PASSED", "//:gpu": "PASSED"}, outcome.text
    assert pool.notes.count("start //:slow cpu-0") == 2
    assert pool.notes.count("end //:slow cpu-0") == 1
    assert "start //:gpu h100-simulated-0" in pool.notes
    said = (
        r"cpu-0 was killed by SIGKILL(, and \d+ processes that it left were killed)?; starts again"
    )
    assert re.search(said, pool.log("supervisor"))
    assert (
        "cpu-0: up, started again 1 times; it was killed by SIGKILL" in pool.plumb("status").stdout
    )


def test_what_a_test_made_for_itself_alone_is_kept_and_its_tmp_is_its_slots(pool: RealPool) -> None:
    mark = f"mark-{pool.folder.name}"
    log = pool.log("supervisor")

    outcome = pool.test("//:closed", f"--test_arg={mark}", "--nozip_undeclared_test_outputs")

    if "outputs that only the tests' user can read fail" not in log:
        assert outcome.statuses == {"//:closed": "PASSED"}, outcome.text
        outputs = pool.workspace / "bazel-testlogs/closed/test.outputs"
        assert (outputs / "folder/file").read_text() == "closed\n"
    if "tests of all slots share this machine's /tmp" not in log:
        assert (pool.home.folder / "slots/cpu-0/tmp" / mark).exists()
        assert not Path("/tmp", mark).exists()
    # A worker answers first, and then has its test's folder removed.
    staging = pool.home.folder / "files/cache/cas/staging"
    pool.wait(lambda: not [*staging.iterdir()], "an empty folder of staged tests")


def test_a_pool_without_a_worker_is_named_at_once(pool: RealPool) -> None:
    outcome = pool.test("//:nowhere")

    assert outcome.code != 0
    assert "Could not find property set for {('Pool', 'b200')}" in outcome.text
    assert outcome.statuses.get("//:nowhere", "NO_STATUS") == "NO_STATUS"
