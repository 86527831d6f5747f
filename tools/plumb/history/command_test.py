"""`plumb history` as a user calls it; what needs Bazel is tested by its parts."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner, Result

from tools.plumb.errors import PlumbError
from tools.plumb.history import command
from tools.plumb.revision import Loader

DATA = Path(__file__).parent / "testdata"


def no_workspace(folder: Path | None) -> Loader:
    raise AssertionError("asked for a workspace")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "deep/history.sqlite"


def plumb(store: Path, *arguments: str | Path) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    command.register(app, no_workspace, TyperGroup, TyperCommand)
    words = ["history", *map(str, arguments), "--store", str(store)]
    return CliRunner().invoke(app, words, catch_exceptions=True)


def sentence(result: Result) -> str:
    """The error that the command line shows as a sentence."""
    assert isinstance(result.exception, PlumbError), result.exception
    return str(result.exception)


def test_what_was_taken_in_is_shown(store: Path) -> None:
    done = plumb(store, "ingest", DATA / "ran.json", DATA / "cached.json")
    assert done.exit_code == 0
    assert "ran.json: 5 new attempts, 0 known" in done.stderr
    assert "cached.json: 1 new attempt, 3 known" in done.stderr
    shown = {one["label"]: one for one in json.loads(plumb(store, "show", "--format=json").stdout)}
    assert shown["//a:flaky_test"]["flake_rate"] == 1.0
    assert shown["//a:sharded_test"]["seconds"]["median"] == pytest.approx(0.85)
    assert (shown["//a:bad_test"]["runs"], shown["//a:bad_test"]["seconds"]) == (2, None)


def test_flaky_shows_flaky_tests_alone(store: Path) -> None:
    plumb(store, "ingest", DATA / "ran.json")
    found = json.loads(plumb(store, "flaky", "--format=json").stdout)
    assert [one["label"] for one in found] == ["//a:flaky_test"]
    assert "//a:flaky_test" in plumb(store, "flaky").stdout
    assert plumb(store, "flaky", "//a:bad*").stdout == "No test was flaky.\n"


def test_a_good_file_stays_taken_in_when_the_next_is_bad(store: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("no event\n")
    assert "bad.json holds no event" in sentence(plumb(store, "ingest", DATA / "ran.json", bad))
    assert len(json.loads(plumb(store, "show", "--format=json").stdout)) == 3


def test_junit_is_taken_in_beside_it(store: Path, tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text(
        '<testsuite timestamp="2026-11-30T19:00:00"><testcase classname="t" time="2"/></testsuite>'
    )
    done = plumb(store, "import", "junit", report, "--pool", "h100")
    assert "1 new attempt, 0 known" in done.stderr
    assert "0 new attempts, 1 known" in plumb(store, "import", "junit", report).stderr
    (one,) = json.loads(plumb(store, "show", "--format=json").stdout)
    assert (one["label"], one["pool"], one["runs"]) == ("t", "h100", 1)


def test_an_empty_answer_is_an_error(store: Path) -> None:
    assert "no history at" in sentence(plumb(store, "show"))
    plumb(store, "ingest", DATA / "ran.json")
    message = sentence(plumb(store, "show", "//b*"))
    assert "no run of a test that matches '//b*'" in message
    # The runs are of 2026; a day ago is later, or will be.
    assert "of the last 1 days" in sentence(plumb(store, "show", "//b*", "--days", "1"))


def event(label: str, status: str, tag: str = "") -> str:
    configured = {"id": {"targetConfigured": {"label": label}}, "configured": {"tag": ["gpu", tag]}}
    own = {"testAttemptStartMillisEpoch": 9, "testAttemptDurationMillis": 5, "status": status}
    result = {"id": {"testResult": {"label": label}}, "testResult": own}
    return f"{json.dumps(configured)}\n{json.dumps(result)}\n"


def test_names_are_neither_markup_nor_orders_to_the_terminal(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    file.write_text(event("//a:[/bold]\x1b[31m", "[/x]FAILED", "[red]pool"))
    assert plumb(store, "ingest", file).exit_code == 0
    shown = plumb(store, "show")
    assert shown.exit_code == 0, shown.exception
    for words in ("//a:[/bold]\\x1b[31m", "[/x]FAILED", "[red]pool"):
        assert words in shown.stdout


def test_runs_without_verdict_alone_are_no_answer(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "cancelled.json"
    file.write_text(event("//a:t", "NO_STATUS"))
    assert plumb(store, "ingest", file).exit_code == 0
    for command_name in ("show", "flaky"):
        assert "none that came to a verdict" in sentence(plumb(store, command_name))


@pytest.mark.parametrize("arguments", [["--days", "9" * 30], ["//a:bad*\udcff"]])
def test_odd_questions_have_an_answer_or_a_sentence(store: Path, arguments: list[str]) -> None:
    plumb(store, "ingest", DATA / "ran.json")
    done = plumb(store, "show", *arguments)
    assert done.exit_code == 0 or "that matches '//a:bad*?'" in " ".join(sentence(done).split())


@pytest.mark.parametrize("option", ["--threshold", "--slack"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_a_limit_that_is_no_number_is_wrong_usage(store: Path, option: str, value: str) -> None:
    plumb(store, "ingest", DATA / "ran.json")
    done = plumb(store, "seconds", option, value)
    assert done.exit_code == 2 and option in done.stderr


def test_a_copy_of_a_report_without_timestamp_changes_nothing(store: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        file = tmp_path / f"{number}.xml"
        file.write_text('<testsuite><testcase file="t.py" time="1"/></testsuite>')
        os.utime(file, (number, number))
        assert plumb(store, "import", "junit", file).exit_code == 0
    assert [one["runs"] for one in json.loads(plumb(store, "show", "--format=json").stdout)] == [1]


def test_the_page_is_not_written_over_the_history(store: Path, tmp_path: Path) -> None:
    plumb(store, "ingest", DATA / "ran.json")
    before = store.read_bytes()
    link = tmp_path / "page.html"
    link.symlink_to(store)
    for name in (store, link):
        assert "is the history itself" in sentence(plumb(store, "show", "--html", name))
    assert store.read_bytes() == before


def test_an_ingest_that_failed_leaves_no_history(store: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("")
    for name in ("empty.json", "nope.json"):
        plumb(store, "ingest", tmp_path / name)
        assert "no history at" in sentence(plumb(store, "show"))


def test_cache_hits_of_other_days_are_not_shown(store: Path) -> None:
    plumb(store, "ingest", DATA / "ran.json", DATA / "cached.json")
    shown = json.loads(plumb(store, "show", "//a:sharded*", "--format=json").stdout)
    assert [one["served_from_cache"] for one in shown] == [2]
    # The invocation that the cache served is taken to be long ago; the run stays.
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE attempt SET start_ms = start_ms + 10000000000000")
        connection.execute("UPDATE invocation SET start_ms = 0")
    words = ("show", "//a:sharded*", "--format=json", "--days", "1")
    assert [one["served_from_cache"] for one in json.loads(plumb(store, *words).stdout)] == [0]
