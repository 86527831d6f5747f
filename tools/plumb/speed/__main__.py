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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.plumb import bazel

_HERE = Path(__file__).resolve()
_PER_PACKAGE = 100
_HEAD = 'package(default_visibility = ["//visibility:public"])\n'


# What is edited, by the file's name: of a source its text, of a BUILD file an attribute.
EDITS = {"s0.txt": ("\n", " edited\n"), "BUILD": ('["t.sh"]', '["t.sh"], args = ["x"]')}


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
            # Not the folder of `bazel run`, which plumb would take for the one to answer for.
            env={**bazel.environment(), **variables},
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, stderr=errors.read())
    return Timed(time.monotonic() - start, usage.ru_maxrss / 1024)


def measure(folder: Path, entry: Path, targets: int) -> Iterator[str]:
    """A line of figures a question, for a workspace of so many targets."""
    root = folder / "workspace"
    write(root, targets)
    identity = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "x"]):
        subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)
    variables = {
        "XDG_CACHE_HOME": str(folder / "caches"),
        bazel.ENTRY_VARIABLE: str(entry),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    user = bazel.Bazel(entry, folder / "user")
    # As plumb asks, but for reading the answer: the least that plumb can take.
    stream = bazel.Bazel(entry, folder / "stream", short_run=True)
    ask = [sys.executable, "-m", "tools.plumb", "affected", "--base", "HEAD", "--format", "json"]
    whole = "query", "//..."
    source, package = root / "g0/p0/s0.txt", root / "g0/p0/BUILD"
    rdeps = "query", "kind('.*_test rule', rdeps(//..., //g0/p0:s0.txt))"
    try:
        for question, edited, asked in (
            ("first", source, whole),
            ("same base, a source edited", source, rdeps),
            ("same base, a BUILD file edited", package, whole),
        ):
            edited.write_text(edited.read_text().replace(*EDITS[edited.name], 1))
            query = timed(user.command(*asked), root)
            floor = timed(stream.command(*bazel.QUERY), root) if asked is whole else None
            plumb = timed(ask, root, **variables)
            yield _row(targets, question, query, floor, plumb)
    finally:
        bases = [folder / "user", folder / "stream"]
        bases += (folder / "caches").glob("plumbline/plumb/*/output_base")
        for base in bases:
            command = [str(entry), f"--output_base={base}", "shutdown"]
            subprocess.run(command, cwd=root, check=False, capture_output=True)


def _row(targets: int, question: str, query: Timed, floor: Timed | None, plumb: Timed) -> str:
    stream = f"{floor.seconds:8.1f}" if floor else f"{'-':>8}"
    ratio = f"{plumb.seconds / floor.seconds:9.2f}" if floor else f"{'-':>9}"
    return (
        f"{targets:8} {question:32}{query.seconds:8.1f}{stream}{plumb.seconds:8.1f}"
        f"{plumb.seconds / query.seconds:9.2f}{ratio}{plumb.peak:7.0f}"
    )


def main() -> None:
    """Prints a table.

    query: `bazel query //...`, or rdeps of the source where that is edited. stream: Bazel writing
    the graph that plumb reads.
    """
    parser = argparse.ArgumentParser(prog="speed", description=__doc__)
    parser.add_argument("--targets", type=int, nargs="*", default=[2000, 20000, 100000])
    options = parser.parse_args()
    repository = _HERE.parents[3]
    entry = bazel.find_entry(repository, repository)
    print(f"{'':41}{'seconds':^24}{'plumb to':^18}{'plumb':>7}")
    print(
        f"{'targets':>8} {'question':32}{'query':>8}{'stream':>8}{'plumb':>8}"
        f"{'query':>9}{'stream':>9}{'MiB':>7}"
    )
    for targets in options.targets:
        with tempfile.TemporaryDirectory(prefix="plumb-speed-") as folder:
            for row in measure(Path(folder), entry, targets):
                print(row, flush=True)


if __name__ == "__main__":
    main()
