import json
import stat
from pathlib import Path

import pytest

from testing.perf.start import start

RESULT = {"status": "PASSED", "testAttemptDurationMillis": 50}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose tools/bazel writes `events.json` and its arguments, and ends as `status`."""
    bazel = tmp_path / "tools" / "bazel"
    bazel.parent.mkdir()
    bazel.write_text(
        '#!/bin/sh\necho "$@" >> arguments\n'
        "for word; do case $word in --build_event_json_file=*)\n"
        '  found=${word#*=} && cp events.json "$found" ;; esac; done\nexit $(cat status)\n'
    )
    bazel.chmod(bazel.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "status").write_text("0")
    answer(tmp_path, "linux-sandbox")
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(start, "bare", lambda: 1000.0)
    return tmp_path


def answer(checkout: Path, strategy: str) -> None:
    event = {"testResult": RESULT | {"executionInfo": {"strategy": strategy}}}
    (checkout / "events.json").write_text(json.dumps(event))


def test_a_quick_test_meets_its_goal(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main(["--rounds", "2"]) == 0

    table = capsys.readouterr().out
    assert "| linux-sandbox | 1000.00 | 0.05 | " in table
    assert table.endswith("| 1.5: met |\n")
    # One that is not counted, and each uncached.
    commands = (checkout / "arguments").read_text().splitlines()
    assert len(commands) == 3
    assert all("--nocache_test_results" in command for command in commands)


def test_a_slow_test_misses_its_goal(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "bare", lambda: 1e-9)

    assert start.main(["--rounds", "1"]) == 1


def test_another_strategy_is_no_measurement(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(checkout, "local")

    assert start.main(["--rounds", "1"]) == 2
    assert "the test ran by 'local', wanted 'linux-sandbox'" in capsys.readouterr().err


def test_a_failed_command_is_shown(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "status").write_text("3")

    assert start.main(["--rounds", "1"]) == 2
    assert "--nocache_test_results" in capsys.readouterr().err


def test_a_pool_is_timed_by_its_address(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bazel = checkout / "tools" / "bazel"
    bazel.write_text(
        bazel.read_text().replace(
            "exit $",
            'case $* in *--config=remote*) sed -i s/linux-sandbox/remote/ "$found" ;; esac\nexit $',
        )
    )

    assert start.main(["--rounds", "1", "--remote", "grpc://127.0.0.1:1"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[1] for line in lines[2:4]] == ["linux-sandbox", "remote"]
    assert lines[-1].startswith("The first torch test of a worker")
    first = (checkout / "arguments").read_text().splitlines()[-1]
    assert "--remote_executor=grpc://127.0.0.1:1" in first
    assert "--test_env=PLUMBLINE_WHEELS=" in first
