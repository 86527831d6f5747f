from __future__ import annotations

from pathlib import Path

import pytest

from tools.plumb import bazel
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.stream.write import delimited

SOURCE = delimited({"type": "SOURCE_FILE", "sourceFile": {"name": "//a:s.py"}})
PRINT = "printf '" + "".join(f"\\{byte:03o}" for byte in SOURCE) + "'"


@pytest.fixture(autouse=True)
def no_bazel_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PLUMBLINE_BAZEL", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")


def program(path: Path, script: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_revisions_own_entry_comes_first(tmp_path: Path) -> None:
    own = program(tmp_path / "tree/tools/bazel")
    program(tmp_path / "user/tools/bazel")

    assert bazel.find_entry(tmp_path / "tree", tmp_path / "user") == own


def test_then_the_users_then_path(tmp_path: Path) -> None:
    path = program(tmp_path / "path/bazelisk")
    assert bazel.find_entry(tmp_path / "tree", tmp_path / "user") == path

    users = program(tmp_path / "user/tools/bazel")
    assert bazel.find_entry(tmp_path / "tree", tmp_path / "user") == users


def test_the_variable_wins_and_a_wrong_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = program(tmp_path / "my-bazel")
    program(tmp_path / "tree/tools/bazel")
    monkeypatch.setenv("PLUMBLINE_BAZEL", str(named))
    assert bazel.find_entry(tmp_path / "tree", tmp_path) == named

    monkeypatch.setenv("PLUMBLINE_BAZEL", "/absent/bazel")
    with pytest.raises(PlumbError, match="/absent/bazel"):
        bazel.find_entry(tmp_path / "tree", tmp_path)


def test_no_bazel_at_all_names_bazelisk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    own = program(tmp_path / "own/tools/bazel")
    monkeypatch.setattr(bazel, "_OWN", own)
    assert bazel.find_entry(tmp_path, tmp_path) == own

    own.unlink()
    with pytest.raises(PlumbError, match="Install bazelisk") as error:
        bazel.find_entry(tmp_path, tmp_path)
    assert error.value.code is ExitCode.ENVIRONMENT


def test_reads_a_graph_with_an_output_base_of_its_own(tmp_path: Path) -> None:
    entry = program(
        tmp_path / "bazel",
        f'case "$*" in --version) echo bazel 7.7.1;; *) echo "$@" >> calls; {PRINT};; esac',
    )

    made = bazel.Bazel(entry, tmp_path / "base").graph(tmp_path, lambda text: None)

    assert list(made.targets) == ["//a:s.py"] and made.release == "bazel 7.7.1"
    calls = (tmp_path / "calls").read_text()
    assert calls.count(f"--output_base={tmp_path / 'base'}") == 1


def test_a_wrapper_that_adds_options_is_asked_for_its_release(tmp_path: Path) -> None:
    entry = program(
        tmp_path / "bazel",
        f'case "$*" in --version) exit 2;; *release*) echo release 7.7.1;; *) {PRINT};; esac',
    )

    assert bazel.Bazel(entry).graph(tmp_path, lambda text: None).release == "release 7.7.1"


def test_a_failed_load_shows_bazels_own_words(tmp_path: Path) -> None:
    entry = program(
        tmp_path / "bazel",
        "echo 'Loading: 1' >&2; echo 'ERROR: /x/BUILD:3:1: no such target' >&2; exit 7",
    )

    with pytest.raises(bazel.GraphError, match="no such target") as error:
        bazel.Bazel(entry).graph(tmp_path, lambda text: None)
    assert error.value.bazel_code == 7 and error.value.code is ExitCode.GRAPH_FAILED
    assert "Loading" not in str(error.value)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("exit 0", "printed no targets for `query //...:*`, though it ended with 0"),
        (f"case $* in *query*) {PRINT};; esac", "printed nothing for `info release`"),
        (
            f"case $* in *query*) {PRINT};; *) echo no server >&2; exit 37;; esac",
            "`bazel info release` failed with exit code 37:\n  no server",
        ),
    ],
)
def test_a_program_that_answers_nothing_is_no_bazel(tmp_path: Path, script: str, says: str) -> None:
    entry = program(tmp_path / "bazel", script)

    with pytest.raises(PlumbError) as error:
        bazel.Bazel(entry).graph(tmp_path, lambda text: None)
    assert says in str(error.value) and error.value.code is ExitCode.ENVIRONMENT


def test_a_failure_without_words_names_the_program(tmp_path: Path) -> None:
    entry = program(tmp_path / "bazel", "exit 1")

    with pytest.raises(bazel.GraphError, match="exit code 1 and said nothing") as error:
        bazel.Bazel(entry).graph(tmp_path, lambda text: None)
    assert str(entry) in str(error.value)


def test_output_that_is_no_graph_is_an_error(tmp_path: Path) -> None:
    entry = program(tmp_path / "bazel", "echo hello")

    with pytest.raises(bazel.GraphError, match="cannot read Bazel's target graph"):
        bazel.Bazel(entry).graph(tmp_path, lambda text: None)


def test_a_program_that_cannot_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "bazel").write_text("")

    with pytest.raises(PlumbError, match="cannot run"):
        bazel.Bazel(tmp_path / "bazel").graph(tmp_path, lambda text: None)


def test_the_environment_of_bazel_run_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", "/x")
    monkeypatch.setenv("RUNFILES_DIR", "/y")
    monkeypatch.setenv("KEPT", "z")

    found = bazel.environment()

    assert "BUILD_WORKSPACE_DIRECTORY" not in found and "RUNFILES_DIR" not in found
    assert found["KEPT"] == "z"
