"""A pool whose disk is full: it says so, no result is wrong, and tests go on once there is room."""

import os

from tools.plumb.pool.faults.real_pool import real_pool
from tools.plumb.pool.faults.small_disk import fill, small_disk

TOML = """
[server]
port = {port}

[[pool]]
name = "cpu"
slots = 1
env = {{NOTES = FOLDER}}
"""
BUILD = """
sh_test(name = "quick", size = "small", srcs = ["check.sh"], args = ["cpu"])
sh_test(name = "other", size = "small", srcs = ["check.sh"], args = ["cpu"], data = ["other.bin"])
"""
# casd leaves a gigabyte of its disk to others.
MEGABYTES = 1200


def test_a_full_disk_is_said_and_tests_go_on_once_it_has_room() -> None:
    with real_pool(lambda folder: small_disk(folder, MEGABYTES)) as pool:
        pool.write(BUILD)
        (pool.workspace / "other.bin").write_bytes(os.urandom(1 << 22))
        pool.up(TOML.format(port=pool.port))
        before = pool.test("//:quick")
        assert before.statuses == {"//:quick": "PASSED"}, before.text

        filler = fill(pool.home.folder)
        pool.wait(lambda: pool.part("files")["state"] == "held", "the store to be stopped")
        shown = pool.plumb("status").stdout
        assert "files: held; it was stopped: the disk of" in shown, shown
        full = pool.test("//:other", "//:quick", "--remote_retries=1", "--keep_going")
        assert full.code != 0
        assert "PASSED" not in full.statuses.values(), full.text

        filler.unlink()
        pool.wait(lambda: pool.part("files")["state"] == "up", "the store to be up again")
        again = pool.test("//:quick", "//:other")
        assert again.statuses == {"//:quick": "PASSED", "//:other": "PASSED"}, again.text
        assert "files starts again" in pool.log("supervisor")
