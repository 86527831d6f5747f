from __future__ import annotations

from pathlib import Path

import pytest

from tools.plumb.bazel import Bazel
from tools.plumb.head_start import HeadStart, write_steering
from tools.plumb.steering import inputs
from tools.plumb.synthetic import files


def recorded(folder: Path, script: str = "") -> tuple[Bazel, Path]:
    """A stand-in for Bazel that notes what it is called with and what is in its folder."""
    entry, log = folder / "bazel", folder / "log"
    entry.write_text(f'#!/bin/sh\necho "$@" >> {log}\nfind . -type f | sort >> {log}\n{script}\n')
    entry.chmod(0o755)
    return Bazel(entry, folder / "base", short_run=True), log


def test_what_steers_bazel_is_there_before_the_rest(tmp_path: Path) -> None:
    tree = {
        "WORKSPACE": 'load("//x:d.bzl", "d")',
        ".bazelrc": "import %workspace%/ci.rc",
        "ci.rc": "startup --max_idle_secs=1",
        "tools/bazel": "*exec",
        ".bazelversion": "->x/version",
        "x/version": "7.7.1",
        "x/d.bzl": "",
        "x/BUILD": "",
        "x/s.py": "",
    }
    table = files(tree)
    write_steering(table, inputs.read(table), tmp_path)

    found = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert {"WORKSPACE", ".bazelrc", "ci.rc", "tools/bazel", "x/d.bzl"} <= found
    assert not found & {".bazelversion", "x/BUILD", "x/s.py"}
    assert (tmp_path / "ci.rc").read_text() == "startup --max_idle_secs=1"
    assert (tmp_path / "tools/bazel").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "WORKSPACE").stat().st_mode & 0o111 == 0


def test_the_server_is_started_with_the_options_that_a_query_has(tmp_path: Path) -> None:
    bazel, log = recorded(tmp_path)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    start = HeadStart()
    start.begin(bazel, checkout)
    start.end()

    assert log.read_text().split() == bazel.command("version")[1:]


def test_a_server_that_is_alive_is_left_alone(tmp_path: Path) -> None:
    bazel, log = recorded(tmp_path)
    (tmp_path / "base/server").mkdir(parents=True)
    pid = tmp_path / "base/server/server.pid.txt"
    pid.write_text(Path("/proc/self/stat").read_text().split()[0])
    start = HeadStart()
    start.begin(bazel, tmp_path)
    start.end()
    assert not log.exists()

    # Of a number that no process can have.
    pid.write_text("99999999")
    start.begin(bazel, tmp_path)
    start.end()
    assert log.exists()


def test_a_bazel_that_fails_or_cannot_run_is_left_to_the_query(tmp_path: Path) -> None:
    start = HeadStart()
    start.begin(recorded(tmp_path, "exit 36")[0], tmp_path)
    start.end()
    start.begin(Bazel(tmp_path / "gone", tmp_path / "base"), tmp_path)
    start.end()


def test_an_interrupt_while_it_is_waited_for_ends_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = HeadStart()
    start.begin(recorded(tmp_path, "exec sleep 60")[0], tmp_path)
    client = start._client
    assert client is not None
    wait = client.wait
    calls: list[None] = []

    def interrupted() -> int:
        calls.append(None)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return wait(20)

    monkeypatch.setattr(client, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start.end()
    assert client.returncode == -9
