"""JUnit reports as pytest, Surefire and others write them."""

from pathlib import Path

import pytest

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.history.junit import read
from tools.plumb.history.summary import runs

PYTEST = """<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" errors="0"
failures="1" skipped="2" tests="6" time="9.2" timestamp="2026-11-30T19:00:00+00:00" hostname="ci-7">
<testcase classname="tests.a_test" name="x" time="1.25" />
<testcase classname="tests.a_test" name="y" time="0.75"><skipped/></testcase>
<testcase classname="tests.a_test" name="z" time="2.5" />
<testcase classname="tests.b_test" name="x" time="4"><failure>no</failure></testcase>
<testcase classname="tests.c_test" name="x" time="0.0"><skipped/></testcase>
<testcase classname="tests.d_test" name="x" time="1,000.5"><flakyFailure/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "junit.xml"


def test_one_attempt_a_file_that_ran(path: Path) -> None:
    path.write_text(PYTEST)
    found = read(path, "h100")
    assert [(a.label, a.ms, a.status) for a in found.attempts] == [
        ("tests.a_test", 3750, "PASSED"),
        ("tests.b_test", 4000, "FAILED"),
        ("tests.d_test", 1_000_500, "FLAKY"),
    ]
    first = found.attempts[0]
    assert (first.pool, first.host, first.start_ms) == ("h100", "ci-7", 1796065200000)


def test_the_same_file_is_the_same_invocation_and_another_is_not(path: Path) -> None:
    path.write_text(PYTEST)
    first = read(path, "cpu").invocation.uuid
    assert read(path, "cpu").invocation.uuid == first
    path.write_text(PYTEST.replace("1.25", "1.5"))
    assert read(path, "cpu").invocation.uuid != first


def test_a_file_attribute_goes_before_the_class_name(path: Path) -> None:
    path.write_text(
        '<testsuite name="s" timestamp="2026-11-30T19:00:00">'
        '<testcase file="test/a.py" classname="A" name="x" time="1"/></testsuite>'
    )
    (attempt,) = read(path, "cpu").attempts
    assert (attempt.label, attempt.start_ms) == ("test/a.py", 1796065200000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<a/>", "begins with <a>"),
        ("<testsuite", "is no XML"),
        ("", "is no XML"),
        ("<testsuites/>", "no test case that ran"),
        (PYTEST.replace('time="4"', 'time="long"'), "case 'x' has time 'long'"),
        (PYTEST.replace('time="4"', 'time="-4"'), "wanted seconds"),
        (PYTEST.replace('time="4"', 'time="nan"'), "wanted seconds"),
        (PYTEST.replace('time="4"', 'time="1,5"'), "has time '1,5', wanted seconds such as"),
        (PYTEST.replace('time="4"', 'time="0,500"'), "wanted seconds"),
        (PYTEST.replace("2026-11-30T", "yesterday "), "wanted ISO 8601"),
        (PYTEST.replace("2026-11-30T", "1926-11-30T"), "wanted one from 1970 to 9999"),
        (PYTEST.replace("2026-11-30T19:00:00+00", "9999-12-31T23:59:00-08"), "from 1970 to 9999"),
        ('<testsuite><testcase name="x"/></testsuite>', "case 'x' names no file, class or suite"),
    ],
)
def test_what_is_no_report_is_refused_by_name(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    with pytest.raises(PlumbError, match=message) as caught:
        read(path, "cpu")
    assert caught.value.code == ExitCode.ENVIRONMENT


@pytest.mark.parametrize("encoding", ["no-such", "euc-jp", "base64"])
def test_an_encoding_that_the_parser_does_not_know_is_no_traceback(
    path: Path, encoding: str
) -> None:
    path.write_text(f'<?xml version="1.0" encoding="{encoding}"?><testsuite/>')
    with pytest.raises(PlumbError, match=r"is no XML.*encoding"):
        read(path, "cpu")


def test_suites_of_one_file_and_time_are_one_attempt(path: Path) -> None:
    suite = '<testsuite timestamp="2026-11-30T19:00:00">{}</testsuite>'
    path.write_text(
        "<testsuites>"
        + suite.format('<testcase file="a.py" time="2"/>')
        + suite.format('<testcase file="a.py" time="1"><failure/></testcase>')
        + "</testsuites>"
    )
    (attempt,) = read(path, "cpu").attempts
    assert (attempt.ms, attempt.status) == (3000, "FAILED")


def test_suites_of_one_file_at_two_times_are_two_runs(path: Path) -> None:
    path.write_text(
        '<testsuites><testsuite timestamp="2026-11-30T19:00:00"><testcase file="a.py" time="2">'
        '<failure/></testcase></testsuite><testsuite timestamp="2026-11-30T20:00:00">'
        '<testcase file="a.py" time="1"/></testsuite></testsuites>'
    )
    found = runs(read(path, "cpu").attempts)
    assert [(run.ms, run.status) for run in found] == [(2000, "FAILED"), (1000, "PASSED")]


def test_an_error_shows_the_beginning_of_a_long_value(path: Path) -> None:
    path.write_text(PYTEST.replace('time="4"', f'time="{"1" * 5000}"'))
    with pytest.raises(PlumbError, match=f"has time '{'1' * 40}', wanted seconds") as caught:
        read(path, "cpu")
    assert len(str(caught.value)) < 400
