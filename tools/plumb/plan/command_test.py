"""Plans from a workspace's tests: which are planned, where, and what is refused."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner, Result

from tools.plumb.cells.model import Model, Test
from tools.plumb.errors import PlumbError
from tools.plumb.history.opening import open_store
from tools.plumb.history.store import Attempt
from tools.plumb.plan import command

TESTS = [
    Test("//a:x_cpu", seconds=10),
    Test("//a:y_cpu", seconds=20),
    Test("//a:night_cpu", seconds=500, cadence="nightly"),
    Test("//a:manual", seconds=500, idle="tagged manual"),
    Test("//a:skips", seconds=500, skipped_on={"cpu": ""}),
    Test("//b:x_rtx5090", "rtx5090", "sm120", 1, idle="no machine of its pool yet"),
    Test("//b:x_h100", "h100", "sm90", 1, seconds=30),
    Test("//b:wide_h100", "h100", "sm90", 2, seconds=40),
]
POOLS = """
[[pool]]
name = "cpu"
hosts = 2
[[pool]]
name = "h100"
slots = 2
start_seconds = 5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    model = Model({}, {test.label: test for test in TESTS})
    loaded = SimpleNamespace(model=model, configs=frozenset({"h100"}))
    monkeypatch.setattr(command, "of_workspace", lambda loader: loaded)
    (tmp_path / "pool.toml").write_text(POOLS)
    return tmp_path


def plumb(folder: Path, *arguments: str) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    loader: Any = None
    command.register(app, lambda workspace: loader, TyperCommand)
    words = ["plan", "--pools", str(folder / "pool.toml"), *arguments]
    return CliRunner().invoke(app, words)


def planned(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.exception
    return {plan["pool"]: plan for plan in json.loads(result.stdout)["pools"]}


def sentence(result: Result) -> str:
    assert isinstance(result.exception, PlumbError), result.output
    return str(result.exception)


def test_what_runs_on_each_commit_is_planned(folder: Path) -> None:
    plans = planned(plumb(folder, "--format=json"))
    assert plans["cpu"]["finish"] == 20 and len(plans["cpu"]["executors"]) == 2
    # 40 s on both GPUs, then 30 s on one.
    assert plans["h100"]["finish"] == 75


def test_a_cadence_targets_and_a_pool_are_chosen(folder: Path) -> None:
    nightly = planned(plumb(folder, "--cadence=nightly", "--format=json"))
    assert nightly["cpu"]["work"] == 500
    assert planned(plumb(folder, "--cadence=all", "--format=json"))["cpu"]["work"] == 530
    assert planned(plumb(folder, "//a:x_cpu", "--format=json"))["cpu"]["work"] == 10
    assert set(planned(plumb(folder, "--pool=h100", "--format=json"))) == {"h100"}
    assert set(planned(plumb(folder, "//b/...", "--format=json"))) == {"h100"}


def test_affected_tests_alone_are_planned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_affected", lambda loader, base: {"//a:y_cpu"})
    assert planned(plumb(folder, "--affected=main", "--format=json"))["cpu"]["work"] == 20
    monkeypatch.setattr(command, "_affected", lambda loader, base: set())
    assert "there is nothing to run" in plumb(folder, "--affected=main").stdout


def test_a_job_matrix_has_an_entry_for_each_executor_with_work(folder: Path) -> None:
    matrix = json.loads(plumb(folder, "--pool=cpu", "--format=github").stdout)
    same = {"pool": "cpu", "gpus": 0, "shards": 2, "options": ""}
    assert matrix["include"] == [
        {**same, "shard": 1, "seconds": 20, "targets": "//a:y_cpu"},
        {**same, "shard": 2, "seconds": 10, "targets": "//a:x_cpu"},
    ]


UNFILTERED = "--build_tag_filters= --test_tag_filters="


@pytest.mark.parametrize(
    ("target", "slots", "gpus", "targets"),
    [
        # One host runs tests of both widths, and its entry takes all of it.
        ("//b/...", 4, [4], ["//b:wide_h100 //b:x_h100"]),
        ("//b:wide_h100", 4, [2], ["//b:wide_h100"]),
        ("//b:x_h100", 4, [1], ["//b:x_h100"]),
    ],
)
def test_an_entry_of_the_matrix_runs_tests_of_every_width(
    folder: Path, target: str, slots: int, gpus: list[int], targets: list[str]
) -> None:
    (folder / "pool.toml").write_text(POOLS.replace("slots = 2", f"slots = {slots}"))
    matrix = json.loads(plumb(folder, target, "--format=github").stdout)["include"]
    assert [entry["gpus"] for entry in matrix] == gpus
    assert [" ".join(sorted(entry["targets"].split())) for entry in matrix] == targets
    # The config's own filters leave out tests of two GPUs, though they are named.
    assert [entry["options"] for entry in matrix] == [
        f"--config=h100 {UNFILTERED} --local_resources=gpu={n}" for n in gpus
    ]


def test_an_entry_of_the_matrix_runs_what_is_not_for_each_commit(folder: Path) -> None:
    (entry,) = json.loads(plumb(folder, "--cadence=nightly", "--format=github").stdout)["include"]
    assert (entry["targets"], entry["options"]) == ("//a:night_cpu", UNFILTERED)


def test_measured_seconds_and_failures_go_before_declared_ones(folder: Path) -> None:
    path = folder / "history.sqlite"
    with open_store(path, create=True) as store, store.together():
        for n in range(10):
            store.add(Attempt("//a:x_cpu", n, 60_000, "PASSED", "cpu", str(n)))
        store.add(Attempt("//a:x_cpu", 99, 1000, "FAILED", "cpu", "99"))
    plan = planned(plumb(folder, "//a/...", f"--history={path}", "--format=json"))["cpu"]
    tests = {t["label"]: t for e in plan["executors"] for t in e["tests"]}
    assert tests["//a:x_cpu"]["seconds"] == 60
    # One failure in eleven runs, and one in a hundred before any was seen.
    assert tests["//a:x_cpu"]["failure_rate"] == pytest.approx(2 / 111, abs=1e-6)
    assert tests["//a:y_cpu"]["failure_rate"] == 0


def test_the_fewest_hosts_that_finish_in_time(folder: Path) -> None:
    for seconds, hosts in ((30, 1), (29, 2), (20, 2)):
        plan = planned(plumb(folder, "//a/...", f"--finish-in={seconds}", "--format=json"))["cpu"]
        assert len(plan["executors"]) == hosts and plan["finish"] <= seconds
    assert "//a:y_cpu alone takes 20 s" in sentence(plumb(folder, "//a/...", "--finish-in=19"))


def test_the_text_names_bound_gap_and_tests(folder: Path) -> None:
    text = plumb(folder, "--pool=cpu", "--tests").stdout
    assert "cpu: 2 tests, 0:30 of work on 2 hosts of 1" in text
    assert "done after 0:20; no plan before 0:20 (the longest test, //a:y_cpu), gap 0.0 %" in text
    assert "0:00 //a:y_cpu (20 s)" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["//c/..."], "no test matches '//c/...'"),
        (["--pool=b200"], "no test runs in pool 'b200'; the pools are cpu, h100, rtx5090."),
        (["--cadence=weekly"], "'weekly' among these runs; there are nightly, per-commit, and all"),
        (["--pool=rtx5090"], "none of the 1 tests asked for runs: no machine of its pool yet."),
        (["//a:manual"], "none of the 1 tests asked for runs: tagged manual."),
        (["//a:skips"], "none of the 1 tests asked for runs: it skips itself on cpu."),
    ],
)
def test_a_request_for_nothing_is_an_error(
    folder: Path, arguments: list[str], message: str
) -> None:
    assert message in sentence(plumb(folder, *arguments))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no [[pool]]"),
        ("pool = 3", "holds no [[pool]]"),
        ("pool = [3]", "pool 1 is 3"),
        ("[[pool]", "is no TOML"),
        ("[[pool]]\nhosts = 2", "pool 1 has no name"),
        ('[[pool]]\nname = "cpu"\nhost = 2', "'host', which means nothing: did you mean 'hosts'?"),
        ('[[pool]]\nname = "cpu"\nhosts = "2"', "hosts = '2', wanted a whole number"),
        ('[[pool]]\nname = "cpu"\nhosts = true', "hosts = True, wanted a whole number"),
        ('[[pool]]\nname = "cpu"\nslots = 0', "slots = 0, wanted at least 1"),
        ('[[pool]]\nname = "cpu"\nstart_seconds = nan', "start_seconds = nan, wanted at least 0"),
        ('[[pool]]\nname = "cpu"\nstart_seconds = inf', "start_seconds = inf, wanted at most"),
        ('[[pool]]\nname = "cpu"\nhosts = 1000000000', "hosts = 1000000000, wanted at most"),
        ('[[pool]]\nname = "cpu"\nhosts = 5000\nslots = 9', "wanted at most 10000 slots in all"),
        (f"hosts = {'9' * 5000}", "is no TOML"),
        # TOML has no limit for these, and Python does not write them out.
        (
            f'[[pool]]\nname = "cpu"\nslots = 0x{"f" * 5000}',
            "slots = a number of thousands of digits, wanted at most",
        ),
        (f'[[pool]]\nname = "cpu"\ngpus = [0x{"f" * 5000}, -1]', "a number of thousands of digits"),
        (f"[[pool]]\nname = 0x{'f' * 5000}", "wanted a text"),
        (f"pool = [0x{'f' * 5000}]", "pool 1 is a number of thousands of digits"),
        (f"hosts = {'[' * 5000}{']' * 5000}", "is no TOML"),
        ('[[pool]]\nname = "cpu"\n[[pool]]\nname = "cpu"', "pool 2 is named 'cpu'"),
        ('[[pool]]\nname = "cpu"', "2 of the tests run in pool 'h100', which"),
        (POOLS.replace("slots = 2", ""), "//b:wide_h100 takes 2 GPUs of one host"),
    ],
)
def test_a_pool_file_that_is_wrong_is_refused_by_name(
    folder: Path, text: str, message: str
) -> None:
    (folder / "pool.toml").write_text(text)
    assert message in sentence(plumb(folder))


@pytest.mark.parametrize("value", ["nan", "inf", "0"])
def test_a_time_that_is_no_number_is_wrong_usage(folder: Path, value: str) -> None:
    done = plumb(folder, "--finish-in", value)
    assert (done.exit_code, done.stdout) == (2, "") and "--finish-in" in done.stderr


def test_a_missing_pool_file_is_named(folder: Path) -> None:
    (folder / "pool.toml").unlink()
    assert "pool.toml: No such file" in sentence(plumb(folder))


def test_a_byte_order_mark_is_no_part_of_a_pool_file(folder: Path) -> None:
    (folder / "pool.toml").write_text(POOLS, encoding="utf-8-sig")
    assert set(planned(plumb(folder, "--format=json"))) == {"cpu", "h100"}
