from pathlib import Path

import pytest

from tools.bootstrap import __main__ as command
from tools.bootstrap import errors
from tools.bootstrap.install import Bootstrap

ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.BootstrapError)
]


def outcome_of_raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def install(self: Bootstrap, force: bool) -> Path:
        raise error

    monkeypatch.setattr(Bootstrap, "install", install)
    return command.main([])


@pytest.mark.parametrize("kind", ERRORS)
def test_each_error_ends_with_its_text_its_status_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: type[errors.BootstrapError],
) -> None:
    assert outcome_of_raising(monkeypatch, kind("what failed, what to do")) == kind.exit_status
    output = capsys.readouterr()
    assert output.err == "\ntools/bootstrap: what failed, what to do\n"
    assert output.out == ""


def test_no_two_errors_share_a_status_and_none_means_success() -> None:
    statuses = [kind.exit_status for kind in ERRORS]
    assert len(set(statuses)) == len(statuses) == 9
    assert 0 not in statuses


def test_an_interruption_says_that_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome_of_raising(monkeypatch, KeyboardInterrupt()) == 130
    assert "what was fetched is kept" in capsys.readouterr().err


def test_success_prints_where_the_prefix_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Bootstrap, "install", lambda self, force: self.layout.home / "7.7.1")
    assert command.main(["--home", "/h"]) == 0
    assert capsys.readouterr().out == "/h/7.7.1\n"


def test_a_relative_home_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.parse(["--home", "cache"]).home == tmp_path / "cache"
