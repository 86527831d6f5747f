import pwd
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
    assert len(set(statuses)) == len(statuses) == 10
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


@pytest.mark.parametrize(
    ("variable", "value"),
    [("XDG_CACHE_HOME", "/proc/nope"), ("HOME", "/proc/nope"), ("HOME", "/dev/null")],
)
def test_a_cache_folder_that_cannot_be_made_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    value: str,
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(variable, value)
    assert command.main([]) == errors.UnusableFolderError.exit_status
    error = capsys.readouterr().err
    assert f"{value}" in error
    assert "Set XDG_CACHE_HOME to a folder of yours" in error
    assert error.count("\n") == 2


def test_a_user_without_any_home_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert command.main([]) == errors.UnusableFolderError.exit_status
    assert "HOME is no absolute path" in capsys.readouterr().err


def test_a_relative_home_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.parse(["--home", "cache"]).home == tmp_path / "cache"
