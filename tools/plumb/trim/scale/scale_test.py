"""plumb on 613 tests: it counts what the statistics say, and answers in three seconds."""

import json
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tools.plumb.plan.job import Job, Pool
from tools.plumb.plan.plan import make
from tools.plumb.trim.scale.suites import Row, rows, write

SECONDS = 3.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scale")
    write(made)
    return made


def ask(folder: Path, *arguments: str, code: int = 0, seconds: float = SECONDS) -> Any:
    """The JSON that plumb prints. Fails above so much processor time, start included."""
    graph = ["--graph", str(folder / "graph.jsonl"), "--workspace", str(folder)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "tools.plumb", *arguments, *graph, "--format", "json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == code, done.stderr
    # Of the processor, as a clock on the wall would count the machine's other work.
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{' '.join(arguments)}: {taken:.2f} s")
    assert taken < seconds
    return json.loads(done.stdout)


def by_suite(found: list[Row]) -> dict[str, list[Row]]:
    suites: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        suites[row.suite].append(row)
    return suites


def test_savings_of_a_whole_suite_are_its_published_seconds(folder: Path) -> None:
    for suite, members in by_suite(rows()).items():
        if suite in ("base-b-test-4-gpu-b200", "base-a-test-cpu"):
            content = ask(folder, "trim", "--drop", f"//suites:{suite}", code=3)
            change = content["saving"]["suites"][suite]["change"]
            seconds = sum(row.declared for row in members)
            assert (change["tests"], change["seconds"]) == (-len(members), -seconds)
            assert change["gpu_seconds"] == -seconds * members[0].place[2]
            assert content["emptied_suites"] == [suite, f"//suites:{suite}"]


def test_coverage_has_a_cell_for_each_claim_architecture_and_cadence(folder: Path) -> None:
    content = ask(folder, "coverage")
    wanted = {(c, row.place[1], row.cadence) for row in rows() for c in row.claims}
    found = {
        (claim["name"], cell["arch"], cell["cadence"])
        for claim in content["claims"]
        for cell in claim["cells"]
    }
    assert found == wanted


def test_dominated_tests_are_those_that_a_plain_loop_finds(folder: Path) -> None:
    found = rows()
    content = ask(folder, "trim", "--propose")
    seen = {c["tests"][0] for c in content["candidates"] if c["kind"] == "dominated"}

    def covers(other: Row, row: Row, claim: str) -> bool:
        often = other.cadence in (row.cadence, "per-commit")
        return claim in other.claims and other.place[1] == row.place[1] and often

    def price(row: Row) -> tuple[int, int]:
        return row.declared * row.place[2], row.declared

    wanted = {
        row.label
        for row in found
        if all(
            any(covers(o, row, claim) and price(o) < price(row) for o in found if o != row)
            for claim in row.claims
        )
    }
    assert seen == wanted
    assert {c["kind"] for c in content["candidates"]} >= {"twins", "mergeable servers"}


def test_the_optimum_keeps_every_cell_and_is_proven(folder: Path) -> None:
    content = ask(folder, "trim", "--optimise", seconds=10)
    assert content["choice"]["proof"]["proven"]
    assert content["choice"]["given_up"] == []
    assert not [c for c in content["cells"] if c["state"] in ("lost", "weakened")]


def test_every_pool_is_planned_in_that_time_too() -> None:
    by_pool: dict[str, list[Job]] = defaultdict(list)
    for row in rows():
        by_pool[row.place[0]].append(Job(row.label, row.declared, max(1, row.place[2])))
    begun = time.process_time()
    plans = [make(jobs, Pool(name, hosts=4, slots=8)) for name, jobs in sorted(by_pool.items())]
    assert time.process_time() - begun < SECONDS
    assert sum(len(e.placed) for plan in plans for e in plan.executors) == 613
    assert all(plan.bound.seconds <= plan.finish <= plan.plain for plan in plans)
