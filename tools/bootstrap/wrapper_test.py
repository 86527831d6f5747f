"""tools/bazel itself, with programs of our making on PATH and in the cache."""

import os
import subprocess
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
        self.wrapper.write_bytes(WRAPPER.read_bytes())
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

    def private(self, made_for: Path | None = None) -> None:
        self.program(self.cache / "7.7.1/usr/bin/bazel", 'echo "private: $*"')
        (self.cache / "current").symlink_to("7.7.1")
        rc = self.cache / "7.7.1" / RC_NAME
        rc.write_text(f"startup --install_base={made_for or self.cache}/7.7.1/usr/share/bazel\n")

    def run(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        environment = {"HOME": str(self.home), "PATH": f"{self.path}:/usr/bin:/bin", **variables}
        command = [str(self.wrapper), *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=20, check=False
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


def test_a_relative_xdg_folder_is_ignored(machine: Machine) -> None:
    machine.private()
    assert machine.run("info", XDG_CACHE_HOME="relative").stdout.startswith("private: ")


def test_it_works_without_home(machine: Machine) -> None:
    real = machine.bazel(machine.path / "bazel", "7.7.1")
    path = f"PATH={real.parent}:{os.environ['PATH']}"
    command = ["env", "-u", "HOME", path, str(machine.wrapper), "info"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout == "bazel: info\n"
