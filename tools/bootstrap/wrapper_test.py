"""tools/bazel itself, with programs of our making on PATH and in the cache."""

import os
import pwd
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tools.bootstrap.prefix import RC_NAME

WRAPPER = Path(__file__).absolute().parents[1] / "bazel"


class Machine:
    """A home, a PATH and a copy of the wrapper in a workspace, all below one folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.path, self.home = root, root / "bin", root / "home"
        self.cache = self.home / ".cache/plumbline/bazel"
        self.wrapper = root / "workspace/tools/bazel"
        for folder in (self.path, self.home, self.wrapper.parent):
            folder.mkdir(parents=True)
        # What waits ten seconds for a program that hangs, waits one here.
        self.wrapper.write_text(WRAPPER.read_text().replace("seconds=10\n", "seconds=1\n"))
        self.wrapper.chmod(0o755)
        # What it would run to make a private Bazel, instead of a download.
        self.program(self.path / "python3", f'echo "python3 $*" >>{root}/log; exit 14')

    def program(self, path: Path, script: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def bazel(self, path: Path, version: str) -> Path:
        return self.program(
            path, f'[ "$1" = --version ] && echo "bazel {version}" || echo "{path.name}: $*"'
        )

    def private(self, made_for: Path | None = None, script: str = 'echo "private: $*"') -> None:
        self.program(self.cache / "7.7.1/usr/bin/bazel", script)
        (self.cache / "current").symlink_to("7.7.1")
        rc = self.cache / "7.7.1" / RC_NAME
        rc.write_text(f"startup --install_base={made_for or self.cache}/7.7.1/usr/share/bazel\n")

    def environment(self, **variables: str) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": f"{self.path}:/usr/bin:/bin", **variables}

    def run(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self.wrapper), *arguments],
            env=self.environment(**variables),
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_bazel_that_called_is_used(machine: Machine) -> None:
    real = machine.bazel(machine.root / "real", "7.4.1")
    machine.private()
    assert machine.run("build", "//a b", BAZEL_REAL=str(real)).stdout == "real: build //a b\n"


def test_a_bazel_7_on_path_goes_before_a_private_one(machine: Machine) -> None:
    machine.bazel(machine.path / "bazel", "7.7.1")
    machine.private()
    assert machine.run("info").stdout == "bazel: info\n"


def test_another_major_on_path_does_not(machine: Machine) -> None:
    machine.bazel(machine.path / "bazel", "4.2.3- (@non-git)")
    machine.bazel(machine.path / "bazelisk", "17.1.0")
    machine.private()
    assert machine.run("info").stdout.startswith("private: --bazelrc=")


def test_another_major_that_called_is_named(machine: Machine) -> None:
    real = machine.bazel(machine.root / "real", "8.0.0")
    machine.private()
    result = machine.run("info", BAZEL_REAL=str(real))
    assert f"{real} is no Bazel 7" in result.stderr
    assert result.stdout.startswith("private: ")


def test_the_private_one_gets_its_rc_before_the_command(machine: Machine) -> None:
    machine.private()
    result = machine.run("--output_base=/o", "test", "//x")
    rc = machine.cache / "current" / RC_NAME
    assert result.stdout == f"private: --bazelrc={rc} --output_base=/o test //x\n"
    assert not (machine.root / "log").exists()


def test_bazelisk_calling_back_with_the_real_one_works(machine: Machine) -> None:
    real = machine.bazel(machine.root / "real", "7.7.1")
    machine.program(machine.path / "bazelisk", f'BAZEL_REAL={real} exec {machine.wrapper} "$@"')
    assert machine.run("info").stdout == "real: info\n"


def test_a_wrapper_that_only_calls_back_is_left_alone(machine: Machine) -> None:
    machine.program(machine.path / "bazel", f'exec {machine.wrapper} "$@"')
    machine.private()
    assert machine.run("info").stdout.startswith("private: ")


def test_a_link_to_the_wrapper_is_the_wrapper(machine: Machine) -> None:
    (machine.path / "bazel").symlink_to(machine.wrapper)
    machine.private()
    assert machine.run("info").stdout.startswith("private: ")


def test_bazelisk_is_not_asked_again_once_there_is_a_private_one(machine: Machine) -> None:
    asked = machine.root / "asked"
    bazelisk = machine.program(machine.root / "lib/bazelisk.js", f"touch {asked}; exit 1")
    (machine.path / "bazel").symlink_to(bazelisk)
    machine.private()
    assert machine.run("info").stdout.startswith("private: ")
    assert not asked.exists()


def test_without_any_the_bootstrap_runs_and_its_status_is_passed_on(machine: Machine) -> None:
    machine.program(
        machine.path / "python3",
        f'[ "$1" = -c ] && exit 0; echo "$PYTHONPATH $*" >>{machine.root}/log; exit 14',
    )
    result = machine.run("info")
    assert result.returncode == 14
    root = machine.root / "workspace"
    expected = f"{root} -B -P -m tools.bootstrap --home {machine.cache}\n"
    assert (machine.root / "log").read_text() == expected


def test_a_prefix_that_was_made_elsewhere_is_not_run(machine: Machine) -> None:
    machine.private(made_for=Path("/elsewhere/bazel"))
    result = machine.run("info")
    assert "private" not in result.stdout
    assert result.returncode != 0


def test_an_old_python_gets_one_clear_sentence(machine: Machine) -> None:
    result = machine.run("info")
    assert result.returncode == 10
    assert "python3 of 3.11 or later" in result.stderr
    assert "bazelisk" in result.stderr


def test_the_cache_follows_xdg(machine: Machine) -> None:
    machine.private()
    moved = machine.root / "xdg/plumbline"
    moved.parent.mkdir()
    machine.cache.parent.rename(moved)
    machine.cache = moved / "bazel"
    (machine.cache / "current").unlink()
    machine.private()
    result = machine.run("info", XDG_CACHE_HOME=str(machine.root / "xdg"))
    assert result.stdout.startswith(f"private: --bazelrc={moved}/bazel/current/")


@pytest.mark.parametrize("folder", ["relative", ""])
def test_a_relative_xdg_folder_is_kept_from_bazel_too(machine: Machine, folder: str) -> None:
    machine.private(script='echo "private: ${XDG_CACHE_HOME-not set}"')
    result = machine.run("info", XDG_CACHE_HOME=folder)
    assert result.stdout == "private: not set\n"


@pytest.mark.parametrize("home", ["", "relative"])
def test_without_a_good_home_passwd_is_asked(machine: Machine, home: str) -> None:
    machine.program(
        machine.path / "bazel", '[ "$1" = --version ] && echo bazel 7.7.1 || echo "$HOME"'
    )
    expected = pwd.getpwuid(os.getuid()).pw_dir
    assert machine.run("info", HOME=home).stdout == f"{expected}\n"


def test_it_works_without_home(machine: Machine) -> None:
    real = machine.bazel(machine.path / "bazel", "7.7.1")
    path = f"PATH={real.parent}:{os.environ['PATH']}"
    command = ["env", "-u", "HOME", path, str(machine.wrapper), "info"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout == "bazel: info\n"


def test_bazel_real_must_not_be_the_wrapper(machine: Machine) -> None:
    machine.private()
    result = machine.run("info", BAZEL_REAL=str(machine.wrapper))
    assert result.returncode == 19
    assert result.stderr == (
        f"tools/bazel: BAZEL_REAL={machine.wrapper} is this wrapper itself: unset it, or let it "
        "name a Bazel 7.\n"
    )


def test_a_circle_of_programs_that_ask_each_other_ends(machine: Machine) -> None:
    real = machine.root / "real"
    machine.program(real, f'BAZEL_REAL={real} exec {machine.wrapper} "$@"')
    machine.private()
    result = machine.run("info", BAZEL_REAL=str(real))
    assert result.stdout.startswith("private: ")
    assert result.stderr.count("\n") == 1
    assert f"{real} is no Bazel 7" in result.stderr


def test_a_circle_of_programs_that_claim_to_be_bazel_ends(machine: Machine) -> None:
    machine.program(
        machine.path / "bazel",
        f'[ "$1" = --version ] && echo bazel 7.7.1 || exec {machine.wrapper} "$@"',
    )
    result = machine.run("info")
    assert result.returncode == 19
    assert result.stderr.count("\n") == 1
    assert f"the bazel on PATH ({machine.path}/bazel) leads back" in result.stderr


def test_what_the_private_one_runs_may_call_the_wrapper(machine: Machine) -> None:
    machine.private(script='[ "$1" ] && env | grep -c PLUMBLINE')
    assert machine.run("run", "//x").stdout == "0\n"


def test_a_program_that_hangs_is_named_and_passed_over(machine: Machine) -> None:
    machine.program(machine.path / "bazel", "sleep 60")
    machine.private()
    result = machine.run("info")
    assert result.stdout.startswith("private: ")
    assert result.stderr == (
        f"tools/bazel: {machine.path}/bazel --version has not answered for 1 s: going on without "
        "it.\n"
    )


def test_bazelisk_has_the_time_to_fetch_bazel(machine: Machine) -> None:
    machine.program(machine.path / "bazelisk", "sleep 2; echo bazel 7.7.1")
    result = machine.run("info")
    assert result.stdout == "bazel 7.7.1\n"
    assert result.stderr == (
        f"tools/bazel: waiting for {machine.path}/bazelisk, which may be fetching Bazel: 300 s at "
        "most.\n"
    )


def test_an_interrupt_ends_what_is_waited_for(machine: Machine) -> None:
    ended = machine.root / "ended"
    machine.program(machine.path / "bazelisk", f"trap 'touch {ended}; exit' TERM; sleep 60 & wait")
    process = subprocess.Popen(
        [machine.wrapper, "info"], env=machine.environment(), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "waiting for" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130
    process.stderr.close()
    for _ in range(50):
        if ended.exists():
            return
        time.sleep(0.1)
    pytest.fail("bazelisk runs on")


@pytest.mark.parametrize("folder", ["metadata/bazelbuild", "bazelbuild"])
def test_a_bazel_that_bazelisk_has_fetched_goes_before_a_private_one(
    machine: Machine, folder: str
) -> None:
    machine.bazel(machine.path / "bazelisk", "7.7.1")
    machine.private()
    (machine.wrapper.parents[1] / ".bazelversion").write_text("7.7.1\n")
    fetched = machine.home / ".cache/bazelisk/downloads" / folder
    fetched.mkdir(parents=True)
    (fetched / "bazel-7.6.0-linux-x86_64").touch()
    assert machine.run("info").stdout.startswith("private: ")
    (fetched / "bazel-7.7.1-linux-x86_64").touch()
    assert machine.run("info").stdout == "bazelisk: info\n"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_checkout_that_bazel_cannot_take_is_named(tmp_path: Path, locale: str) -> None:
    machine = Machine(tmp_path / "Ünï")
    machine.private()
    result = machine.run("info", LC_ALL=locale)
    assert (result.returncode, result.stdout) == (18, "")
    assert result.stderr == (
        f"tools/bazel: Bazel 7 cannot work in {machine.wrapper.parents[1]}, a path with "
        "characters beyond ASCII: move the checkout.\n"
    )


def test_a_cache_that_bazel_cannot_take_is_named(machine: Machine) -> None:
    result = machine.run("info", HOME=str(machine.root / "jörg"))
    assert (result.returncode, result.stdout) == (18, "")
    assert f"{machine.root}/jörg/.cache/plumbline/bazel, a path" in result.stderr
    assert "set XDG_CACHE_HOME" in result.stderr
