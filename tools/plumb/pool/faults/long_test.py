"""Every fault of a pool: no result is lost or wrong, and nothing waits longer than its timeout."""

import random
import re
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from tools.plumb.pool.faults.real_pool import RealPool, real_pool

# Of one host's worth of caches: small enough to fill.
TOML = """
[server]
port = PORT
cache = "300M"

[[pool]]
name = "cpu"
slots = 2
env = {NOTES = FOLDER}

[[pool]]
name = "h100"
simulated = true
env = {NOTES = FOLDER}

[[pool]]
name = "b200"
simulated = true
env = {NOTES = FOLDER}
"""
POOLS = ("cpu", "h100", "b200")
TINY = 1000


def sh_test(name: str, pool: str, *args: str, script: str = "check.sh", more: str = "") -> str:
    words = ", ".join(f'"{word}"' for word in args)
    return (
        f'sh_test(name = "{name}", size = "small", srcs = ["{script}"], args = [{words}], '
        f'exec_properties = {{"test.Pool": "{pool}"}}, {more})\n'
    )


BUILD = (
    sh_test("slow", "cpu", "cpu", "8")
    + sh_test("quick", "cpu", "cpu")
    + sh_test("other", "h100", "h100", "3")
    + sh_test("hangs", "cpu", "cpu", "1000")
    + sh_test("killer", "b200", script="killer.sh")
    + sh_test("big", "cpu", "cpu", more='data = ["big.bin"]')
    + "".join(sh_test(f"tiny_{n}", POOLS[n % 3], POOLS[n % 3], "0", str(n)) for n in range(TINY))
    + 'test_suite(name = "tiny", tests = ['
    + ", ".join(f'"tiny_{n}"' for n in range(TINY))
    + "])\n"
)


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool() as made:
        made.write(BUILD)
        made.up(TOML.replace("PORT", str(made.port)))
        yield made


@pytest.mark.parametrize("part", ["files", "scheduler", "server", "database"])
def test_a_part_that_is_killed_while_tests_run_loses_none(pool: RealPool, part: str) -> None:
    pool.forget()

    with pool.testing("//:slow", "//:other", "//:quick") as running:
        running.wait(lambda: any(note.startswith("start //:slow") for note in pool.notes), "start")
        pool.kill(part)
        outcome = running.outcome()

    wanted = {"//:slow": "PASSED", "//:other": "PASSED", "//:quick": "PASSED"}
    assert outcome.statuses == wanted, outcome.text
    assert not [note for note in pool.notes if note.startswith("wrong")]
    assert f"{part} was killed by SIGKILL" in pool.log("supervisor")


def test_a_test_that_hangs_ends_with_its_timeout_and_leaves_nothing(pool: RealPool) -> None:
    outcome = pool.test("//:hangs", "//:quick", "--test_timeout=5")

    assert outcome.statuses == {"//:hangs": "TIMEOUT", "//:quick": "PASSED"}, outcome.text
    again = pool.test("//:quick")
    assert again.statuses == {"//:quick": "PASSED"}, again.text


def test_a_test_that_kills_its_worker_fails_after_some_tries_alone(pool: RealPool) -> None:
    pool.forget()

    outcome = pool.test("//:killer", "//:quick", "--keep_going", "--remote_retries=0")

    assert outcome.statuses["//:quick"] == "PASSED", outcome.text
    assert outcome.statuses.get("//:killer", "NO_STATUS") in ("NO_STATUS", "FAILED"), outcome.text
    assert outcome.code != 0
    tries = len([note for note in pool.notes if note.startswith("start //:killer")])
    # Three of an execution, which Bazel asks for a second time even so.
    assert 1 <= tries <= 6
    pool.wait(lambda: pool.part("b200-simulated-0")["state"] == "up", "the worker to be up again")


def test_a_full_store_says_so_and_takes_tests_again(pool: RealPool) -> None:
    # More than the store may keep, in one file.
    content = random.Random(1).randbytes(1 << 20) * 400
    (pool.workspace / "big.bin").write_bytes(content)

    outcome = pool.test("//:big", "--remote_retries=1", "--keep_going", "--verbose_failures")

    assert outcome.code != 0
    assert outcome.statuses.get("//:big", "NO_STATUS") == "NO_STATUS", outcome.text
    assert re.search("Blob size exceeds total storage allocation", outcome.text), outcome.text
    again = pool.test("//:quick")
    assert again.statuses == {"//:quick": "PASSED"}, again.text


def test_a_thousand_tests_run_each_in_its_pool_while_workers_are_killed(pool: RealPool) -> None:
    pool.forget()
    done = threading.Event()
    kills: Counter[str] = Counter()

    def kill_on() -> None:
        dice = random.Random(7)
        while not done.wait(3.0):
            name = dice.choice(["cpu-0", "cpu-1", "h100-simulated-0", "b200-simulated-0"])
            pool.kill(name)
            kills[name] += 1

    thread = threading.Thread(target=kill_on)
    with pool.testing("//:tiny", "--test_output=summary") as running:
        running.wait(lambda: bool(pool.notes), "start of a test")
        thread.start()
        try:
            outcome = running.outcome()
        finally:
            done.set()
            thread.join()

    assert Counter(outcome.statuses.values()) == {"PASSED": TINY}, outcome.text[-3000:]
    assert not [note for note in pool.notes if note.startswith("wrong")]
    ended = {note.split()[1] for note in pool.notes if note.startswith("end")}
    assert len(ended) == TINY
    assert sum(kills.values()) >= 5
    print(f"{TINY} tests in {outcome.seconds:.0f} s, {sum(kills.values())} workers killed")
