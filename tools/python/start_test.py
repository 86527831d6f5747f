"""start.sh, filled in as Bazel fills it in for a py_test, on runfiles laid out by hand."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tools.pip import pack

START = Path(__file__).parent / "start.sh"
UNPACK = START.parents[1] / "pip" / "unpack.py"
TELL = "import json, os, sys\nprint(json.dumps([sys.argv[1:], sys.path, dict(os.environ)]))\n"


class Told(NamedTuple):
    """What the started program saw."""

    arguments: list[str]
    path: list[Any]
    env: dict[str, str]


class Program:
    """A program in `folder`, whose main tells what it sees."""

    def __init__(
        self,
        folder: Path,
        python: str = sys.executable,
        imports: str = "pip_a/site-packages:pip_b/site-packages",
        is_zip: bool = False,
    ) -> None:
        self.folder = folder
        self.file = folder / "tell"
        self.runfiles = folder / "tell.runfiles"
        text = START.read_text()
        for name, value in {
            "shebang": "#!/bin/sh",
            "target": "@//x:tell",
            "is_zipfile": str(is_zip),
            "main": "plumbline/x/tell.py",
            "imports": imports,
            "python_binary": python,
            "workspace_name": "plumbline",
        }.items():
            text = text.replace(f"%{name}%", value)
        self.write("plumbline/x/tell.py", TELL)
        self.file.write_text(text)
        self.file.chmod(0o755)

    def write(self, name: str, text: str) -> Path:
        """A file of the runfiles."""
        path = self.runfiles / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def pack(self, repository: str) -> str:
        """Packs a wheel of a module named like its repository; returns the digest."""
        wheel = self.folder / repository
        wheel.mkdir()
        (wheel / f"{repository}.py").write_text("")
        file = self.write(f"{repository}/wheel.pack", "")
        digest = pack.pack(wheel, file)
        self.write(f"{repository}/wheel.pack.sha256", digest + "\n")
        self.write("plumbline/tools/pip/unpack.py", UNPACK.read_text())
        return digest

    def run(
        self, *arguments: str, program: str = "", cwd: Path = Path("/"), **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Starts it, under `program`'s name if given, with no environment but `env`."""
        return subprocess.run(
            [program or str(self.file), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "PLUMBLINE_WHEELS": f"{self.folder}/cache", **env},
            cwd=cwd,
        )

    def told(self, *arguments: str, program: str = "", cwd: Path = Path("/"), **env: str) -> Told:
        """What it saw; it has to end well."""
        done = self.run(*arguments, program=program, cwd=cwd, **env)
        assert done.returncode == 0, done.stderr
        return Told(*json.loads(done.stdout))


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_arguments_pass_as_they_are(program: Program) -> None:
    arguments = ["a b", "", "*", "$x'\"", "--a=:b"]

    assert program.told(*arguments).arguments == arguments


def test_the_import_path_is_the_runfiles_the_packages_and_the_workspace(program: Program) -> None:
    told = program.told(PYTHONPATH="/given")

    root = str(program.runfiles)
    wanted = [root, f"{root}/pip_a/site-packages", f"{root}/pip_b/site-packages"]
    wanted += [f"{root}/plumbline", "/given"]
    assert told.env["PYTHONPATH"].split(":") == wanted
    # The folder of main.py would hide packages of the same names as its neighbours.
    assert f"{root}/plumbline/x" not in told.path
    assert told.env["RUNFILES_DIR"] == root


def test_it_is_found_by_a_relative_path_and_through_links(program: Program, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "second").symlink_to("../tell")
    (tmp_path / "first").symlink_to(tmp_path / "bin" / "second")

    for name in ("./tell", "first", "bin/second"):
        told = program.told(program=f"./{name}", cwd=tmp_path)
        assert Path(told.env["RUNFILES_DIR"]).samefile(program.runfiles)


def test_it_is_found_inside_its_own_runfiles(program: Program) -> None:
    (program.runfiles / "plumbline" / "x" / "tell").symlink_to(program.file)

    told = program.told(program=f"{program.runfiles}/plumbline/x/tell")

    assert told.env["RUNFILES_DIR"] == str(program.runfiles)


@pytest.mark.parametrize("name", ["RUNFILES_DIR", "RUNFILES_MANIFEST_FILE"])
def test_a_program_that_has_it_among_its_data_lends_its_runfiles(
    program: Program, tmp_path: Path, name: str
) -> None:
    other = tmp_path / "other.runfiles"
    program.runfiles.rename(other)
    (other / "MANIFEST").touch()
    told = (
        program.told(RUNFILES_DIR=str(other))
        if name == "RUNFILES_DIR"
        else program.told(RUNFILES_MANIFEST_FILE=str(other / "MANIFEST"))
    )

    assert told.env["RUNFILES_DIR"] == str(other)


def test_the_runfiles_of_a_program_that_has_it_not_are_passed_over(
    program: Program, tmp_path: Path
) -> None:
    (tmp_path / "other.runfiles").mkdir()

    told = program.told(RUNFILES_DIR=str(tmp_path / "other.runfiles"))

    assert told.env["RUNFILES_DIR"] == str(program.runfiles)


def test_without_runfiles_it_says_how_to_run_it(program: Program, tmp_path: Path) -> None:
    program.runfiles.rename(tmp_path / "elsewhere")

    done = program.run()

    assert done.returncode == 1
    assert "tell.runfiles: run it by 'bazel run @//x:tell'" in done.stderr


def test_a_worker_without_that_python_says_so(tmp_path: Path) -> None:
    done = Program(tmp_path, python="/no/python3").run()

    assert done.returncode == 1
    assert "no python at /no/python3 on " in done.stderr


def test_zip_files_are_refused(tmp_path: Path) -> None:
    assert "--build_python_zip" in Program(tmp_path, is_zip=True).run().stderr


def test_a_packed_wheel_lies_in_the_cache_under_its_digest(
    program: Program, tmp_path: Path
) -> None:
    digest = program.pack("pip_a")

    first, second = program.told(), program.told()

    found = [Path(entry) for entry in first.path if digest in entry]
    assert [path.parents[1] for path in found] == [tmp_path / "cache"]
    assert (found[0] / "pip_a.py").exists()
    assert second.path == first.path
    assert f"{program.runfiles}/pip_a/site-packages" not in first.path
    assert f"{program.runfiles}/pip_b/site-packages" in first.path


def test_a_wheel_that_is_not_declared_is_not_found_though_the_cache_holds_it(
    program: Program,
) -> None:
    digest = program.pack("pip_a")
    program.told()
    (program.runfiles / "pip_a" / "wheel.pack").unlink()

    assert not [entry for entry in program.told().path if digest in entry]


def test_a_used_wheel_is_marked_as_used(program: Program, tmp_path: Path) -> None:
    digest = program.pack("pip_a")
    program.told()
    (used,) = (tmp_path / "cache").glob(f"*/{digest}.used")
    os.utime(used, (1, 1))
    program.told()

    assert used.stat().st_mtime > 1


def test_a_cache_that_others_may_have_filled_is_not_used(program: Program, tmp_path: Path) -> None:
    program.pack("pip_a")
    program.told()
    (tmp_path / "cache").rename(tmp_path / "other")
    (tmp_path / "cache").symlink_to("other")
    (tmp_path / "own").mkdir()

    told = program.told(TEST_TMPDIR=str(tmp_path / "own"))

    assert [entry for entry in told.path if entry.startswith(f"{tmp_path}/own/wheels/")]
    others = f"{tmp_path}/cache/", f"{tmp_path}/other/"
    assert not [entry for entry in told.path if entry.startswith(others)]


def test_without_packs_no_cache_is_needed(program: Program, tmp_path: Path) -> None:
    program.write("plumbline/tools/pip/unpack.py", UNPACK.read_text())

    # A sandbox, where nothing outside can be written.
    assert program.told(PLUMBLINE_WHEELS="/proc/none").arguments == []
    assert not (tmp_path / "cache").exists()


def test_a_pack_that_came_damaged_fails_the_test(program: Program) -> None:
    program.pack("pip_a")
    program.write("pip_a/wheel.pack", "no archive")

    done = program.run()

    assert done.returncode == 1
    assert "it came damaged" in done.stderr
    assert "cannot unpack the wheels" in done.stderr


def test_a_worker_whose_python_holds_the_packages_needs_no_pack(
    program: Program, tmp_path: Path
) -> None:
    digest = program.pack("pip_a")

    told = program.told(PLUMBLINE_WORKER_IMAGE="yes")

    assert not [entry for entry in told.path if digest in entry]
    assert not (tmp_path / "cache").exists()


def test_a_worker_may_have_its_python_elsewhere(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nOWN=yes exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    program = Program(tmp_path, python="/no/python3")
    program.pack("pip_a")

    assert program.told(PLUMBLINE_WORKER_PYTHON=str(python)).env["OWN"] == "yes"


@pytest.mark.parametrize(("kind", "seen"), [("wheels", False), ("packs", False), ("image", True)])
def test_pythons_own_packages_are_seen_only_where_the_image_holds_all(
    tmp_path: Path, kind: str, seen: bool
) -> None:
    program = Program(tmp_path, imports="" if kind == "image" else "pip_a/site-packages")
    if kind == "packs":
        program.pack("pip_a")
    program.write("plumbline/x/tell.py", TELL.replace("sys.path", "['site' in sys.modules]"))

    assert program.told().path == [seen]
