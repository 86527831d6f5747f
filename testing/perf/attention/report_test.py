from pathlib import Path

import pytest

from testing.perf.attention.report import Report

TEXT = """H200

| a | b |
| --- | --- |
| 1 | 2 |
| 3 | 4 |

| c |
| --- |
| 5 |

Goals met.

"""


def test_rows_stand_under_their_heads_in_the_log_and_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "speed.md"
    report = Report(kept)
    report.say("H200")
    report.row(["a", "b"], ["1", "2"])
    # What a run that is stopped here would leave.
    assert TEXT.startswith(kept.read_text()) and "| 1 | 2 |" in kept.read_text()
    report.row(["a", "b"], ["3", "4"])
    report.row(["c"], ["5"])
    report.say("Goals met.")

    assert kept.read_text() == TEXT
    assert capsys.readouterr().out == TEXT
