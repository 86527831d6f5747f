import json

import pytest

from testing.perf.start.figures import Figures, Run, heading, seconds_of_test

RESULT = {
    "status": "PASSED",
    "testAttemptDurationMillis": "1234",
    "executionInfo": {"strategy": "linux-sandbox"},
}


def events(**changed: object) -> list[str]:
    return [json.dumps({"started": {}}), json.dumps({"testResult": RESULT | changed})]


def test_the_ratio_is_the_median_over_pairs() -> None:
    # Load that slows both of a pair leaves its ratio alone.
    runs = [Run(1.0, 1.5, 1.2), Run(10.0, 16.0, 13.0), Run(1.0, 9.0, 1.2)]

    figures = Figures("linux-sandbox", 1.5, runs)

    assert figures.ratio == 1.6
    assert figures.row() == "| linux-sandbox | 1.00 | 1.20 | 9.00 | 1.60 | 1.50 | 1.5: MISSED |"
    assert Figures("remote", 2.2, runs).row().endswith("| 2.2: met |")


def test_the_heading_has_as_many_columns_as_a_row() -> None:
    row = Figures("remote", 2.2, [Run(1.0, 2.0, 1.5)]).row()

    assert {line.count("|") for line in [*heading().splitlines(), row]} == {8}


def test_the_tests_own_seconds_are_read_from_bazels_events() -> None:
    assert seconds_of_test(events()) == (1.234, "linux-sandbox")


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"status": "FAILED"}, "the test FAILED"),
        ({"cachedLocally": True}, "the test was cached"),
        ({"executionInfo": {"strategy": "remote", "cachedRemotely": True}}, "was cached"),
    ],
)
def test_what_was_not_run_is_no_measurement(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        seconds_of_test(events(**changed))


def test_events_without_a_test_are_no_measurement() -> None:
    with pytest.raises(ValueError, match="no test result"):
        seconds_of_test(events()[:1])
