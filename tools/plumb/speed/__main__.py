"""Times plumb against Bazel's own queries: `tools/bazel run //tools/plumb/speed -- --targets 2000`.

Each size is a synthetic workspace of its own, with a private Bazel server for each side.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tools.plumb import bazel

_HERE = Path(__file__).resolve()
_PER_PACKAGE = 100
_HEAD = 'package(default_visibility = ["//visibility:public"])\n'


@dataclass(frozen=True)
class Timed:
    """seconds: wall-clock; peak: memory of the process itself in MiB, without Bazel's server."""

    seconds: float
    peak: float


def write(root: Path, targets: int) -> None:
    """A workspace of so many rules: in each package libraries that use each other and the package
    before, and every fourth a test.
    """
    root.mkdir(parents=True)
    (root / "WORKSPACE").write_text("")
    (root / ".bazelrc").write_text("common --noenable_bzlmod\n")
    (root / ".gitignore").write_text("/bazel-*\n")
    for number in range(max(1, targets // _PER_PACKAGE)):
        folder = root / f"g{number // 100}/p{number}"
        folder.mkdir(parents=True)
        lines = [_HEAD]
        for n in range(_PER_PACKAGE):
            deps = [f'":t{n - 1}"'] if n % 10 and (n - 1) % 4 else []
            if number and n % 10 == 0:
                deps.append(f'"//g{(number - 1) // 100}/p{number - 1}:t{n}"')
            listed = ", ".join([f'"s{n % 10}.txt"', *deps])
            if n % 4:
                lines.append(f'filegroup(name = "t{n}", srcs = [{listed}])\n')
            else:
                lines.append(f'sh_test(name = "t{n}_test", srcs = ["t.sh"], data = [{listed}])\n')
                lines.append(f'filegroup(name = "t{n}", srcs = [{listed}])\n')
        (folder / "BUILD").write_text("".join(lines))
        (folder / "t.sh").write_text("exit 0\n")
        for n in range(10):
            (folder / f"s{n}.txt").write_text(f"{number} {n}\n")


def timed(command: list[str], root: Path, **variables: str) -> Timed:
    """Runs a command. Raises CalledProcessError with its words if it fails."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            cwd=root,
            env={**os.environ, **variables},
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, stderr=errors.read())
    return Timed(time.monotonic() - start, usage.ru_maxrss / 1024)


def measure(folder: Path, entry: Path, targets: int) -> str:
    """One line of figures for a workspace of so many targets."""
    root = folder / "workspace"
    write(root, targets)
    identity = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "x"]):
        subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)
    (root / "g0/p0/s0.txt").write_text("edited\n")
    server = [str(entry), f"--output_base={folder / 'own'}"]
    variables = {
        "XDG_CACHE_HOME": str(folder / "caches"),
        bazel.ENTRY_VARIABLE: str(entry),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    ask = [sys.executable, "-m", "tools.plumb", "affected", "--base", "HEAD", "--format", "json"]
    rdeps = "kind('.*_test rule', rdeps(//..., //g0/p0:s0.txt))"
    try:
        query = timed([*server, "query", "//..."], root)
        cold = timed(ask, root, **variables)
        warm = timed(ask, root, **variables)
        again = timed([*server, "query", rdeps], root)
    finally:
        bases = [folder / "own", *(folder / "caches").glob("plumbline/plumb/*/output_base")]
        for base in bases:
            command = [str(entry), f"--output_base={base}", "shutdown"]
            subprocess.run(command, cwd=root, check=False, capture_output=True)
    return (
        f"{targets:8}{query.seconds:10.1f}{cold.seconds:10.1f}{cold.seconds / query.seconds:8.2f}"
        f"{again.seconds:12.2f}{warm.seconds:10.2f}{warm.seconds / again.seconds:8.2f}"
        f"{max(cold.peak, warm.peak):10.0f}"
    )


def main() -> None:
    """Prints a table: first questions, whose graphs Bazel has to load, and second ones."""
    parser = argparse.ArgumentParser(prog="speed", description=__doc__)
    parser.add_argument("--targets", type=int, nargs="*", default=[2000, 20000, 100000])
    options = parser.parse_args()
    repository = _HERE.parents[3]
    entry = bazel.find_entry(repository, repository)
    print(f"{'':8}{'first question, s':^28}{'second question, s':^30}{'plumb':>10}")
    print(
        f"{'targets':>8}{'query':>10}{'plumb':>10}{'ratio':>8}"
        f"{'rdeps':>12}{'plumb':>10}{'ratio':>8}{'MiB':>10}"
    )
    for targets in options.targets:
        with tempfile.TemporaryDirectory(prefix="plumb-speed-") as folder:
            print(measure(Path(folder), entry, targets), flush=True)


if __name__ == "__main__":
    main()
