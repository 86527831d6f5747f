"""Times plumb against Bazel's own queries: `tools/bazel run //tools/plumb/speed -- --targets 2000`.

Each size is a synthetic workspace of its own, with a private Bazel server for each side. Both are
asked in the same state: both servers cold or both warm, after the same edit.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from tools.plumb import bazel
from tools.plumb.speed.servers import Server

_HERE = Path(__file__).resolve()
_PER_PACKAGE = 100
_HEAD = 'package(default_visibility = ["//visibility:public"])\n'
_EVERYTHING = ("query", "//...")
_SOURCE, _PACKAGE = "g0/p0/s0.txt", "g0/p0/BUILD"
_USERS = {_SOURCE: "//g0/p0:s0.txt", _PACKAGE: "//g0/p0:all"}
_PLUMB = [sys.executable, "-m", "tools.plumb", "affected", "--format", "json", "--base", "HEAD"]


@dataclass(frozen=True)
class State:
    """Before a question. edited: a file. warm: whether both servers have answered before.

    known: whether the base's graph is cached. times: how often it is asked, each after an edit.
    """

    name: str
    edited: str
    warm: bool
    known: bool
    times: int = 1


STATES = (
    State("nothing known", _PACKAGE, warm=False, known=False),
    State("base known, servers cold, a source edited", _SOURCE, warm=False, known=True),
    State("base known, servers cold, a BUILD file edited", _PACKAGE, warm=False, known=True),
    State("base known, servers warm, a source edited", _SOURCE, warm=True, known=True, times=5),
    State(
        "base known, servers warm, a BUILD file edited", _PACKAGE, warm=True, known=True, times=5
    ),
)


@dataclass(frozen=True)
class Timed:
    """seconds: wall-clock. cpu: processor seconds, Bazel's server too. peak: memory in MiB.

    peak is that of the process itself, without Bazel's server.
    """

    seconds: float
    cpu: float
    peak: float


@dataclass(frozen=True)
class Row:
    """What was measured in one state, medians of all times. memory: of plumb's server in MiB."""

    query: Timed
    rdeps: Timed | None
    stream: Timed | None
    plumb: Timed
    memory: float


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


def timed(
    command: Sequence[str], root: Path, server: Callable[[], Server], **variables: str
) -> Timed:
    """Runs a command that may start or ask `server`. Raises CalledProcessError if it fails."""
    start, before = time.monotonic(), server().cpu()
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
        seconds = time.monotonic() - start
        errors.seek(0)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, stderr=errors.read())
    cpu = usage.ru_utime + usage.ru_stime + server().cpu() - before
    return Timed(seconds, cpu, usage.ru_maxrss / 1024)


class Bench:
    """One workspace, and the servers of both sides."""

    def __init__(self, folder: Path, entry: Path, targets: int) -> None:
        self.root, self._caches = folder / "workspace", folder / "caches"
        self._entry = folder / "bazel"
        # With plumb's own cache folder, tools/bazel would make itself a Bazel first.
        cache = os.environ.get("XDG_CACHE_HOME")
        kept = "unset XDG_CACHE_HOME" if cache is None else f"export XDG_CACHE_HOME={cache!r}"
        self._entry.write_text(f'#!/bin/sh\n{kept}\nexec {shlex.quote(str(entry))} "$@"\n')
        self._entry.chmod(0o755)
        self._query = bazel.Bazel(self._entry, folder / "user")
        # As plumb asks, but for reading the answer: the least that a first question can take.
        self._stream = bazel.Bazel(self._entry, folder / "stream", short_run=True)
        write(self.root, targets)
        identity = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
        for arguments in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "x"]):
            command = ["git", *identity, *arguments]
            subprocess.run(command, cwd=self.root, check=True, capture_output=True)
        self._edits = 0

    def measure(self, state: State) -> Row:
        """Asks all sides in that state."""
        if state.known:
            # As a job of the main branch does.
            self._plumb("--head", "HEAD")
        asked = [self._once(state) for _ in range(state.times)]
        memory = max(row.memory for row in asked)
        sides = ([r.query for r in asked], [r.rdeps for r in asked], [r.stream for r in asked])
        query, rdeps, stream = (_middle(side) for side in sides)
        plumb = _middle([row.plumb for row in asked])
        assert query is not None and plumb is not None
        return Row(query, rdeps, stream, plumb, memory)

    def _once(self, state: State) -> Row:
        if not state.warm:
            self.shut_down()
        self._edit(state.edited)
        server = partial(Server, self._query.output_base)
        query = timed(self._query.command(*_EVERYTHING), self.root, server)
        rdeps = stream = None
        if state.warm:
            tests = f"kind('.*_test rule', rdeps(//..., {_USERS[state.edited]}))"
            rdeps = timed(self._query.command("query", tests), self.root, server)
        if not state.known:
            command = self._stream.command(*bazel.QUERY, "--noproto:default_values", "//...:*")
            stream = timed(command, self.root, partial(Server, self._stream.output_base))
        plumb = self._plumb()
        return Row(query, rdeps, stream, plumb, self._own_server().peak())

    def _edit(self, path: str) -> None:
        self._edits += 1
        file = self.root / path
        text = subprocess.check_output(["git", "show", f"HEAD:{path}"], cwd=self.root, text=True)
        said = f'["t.sh"], args = ["{self._edits}"]'
        edited = text.replace('["t.sh"]', said, 1) if path == _PACKAGE else f"{self._edits}\n"
        file.write_text(edited)

    def _own_server(self) -> Server:
        return Server(next((self._caches / "plumbline/plumb").glob("*/output_base"), None))

    def _plumb(self, *more: str) -> Timed:
        variables = {
            "XDG_CACHE_HOME": str(self._caches),
            bazel.ENTRY_VARIABLE: str(self._entry),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        (self._caches / "plumbline/plumb").mkdir(parents=True, exist_ok=True)
        return timed([*_PLUMB, *more], self.root, self._own_server, **variables)

    def shut_down(self) -> None:
        """Ends the servers of all sides."""
        bases = [self._query.output_base, self._stream.output_base]
        bases += (self._caches / "plumbline/plumb").glob("*/output_base")
        for base in bases:
            command = [str(self._entry), f"--output_base={base}", "shutdown"]
            subprocess.run(command, cwd=self.root, check=False, capture_output=True)


def _middle(found: Sequence[Timed | None]) -> Timed | None:
    known = [one for one in found if one is not None]
    if not known:
        return None
    return Timed(
        median(one.seconds for one in known),
        median(one.cpu for one in known),
        max(one.peak for one in known),
    )


def lines(targets: int, state: State, row: Row) -> Iterator[str]:
    """The row of a table, as GitHub's Markdown has it."""
    cells = [f"{targets:,}", state.name]
    for timed in (row.query, row.rdeps, row.stream, row.plumb):
        cells.append(f"{timed.seconds:.2f}" if timed else "")
    cells.append(f"{row.plumb.seconds / row.query.seconds:.2f}")
    cells += [f"{row.query.cpu:.1f}", f"{row.plumb.cpu:.1f}"]
    cells.append(f"{row.plumb.cpu / row.query.cpu:.2f}")
    cells += [f"{row.plumb.peak:.0f}", f"{row.memory:.0f}"]
    yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints a table.

    query: `bazel query //...`. rdeps: of what was edited. stream: Bazel writing the graph that a
    first question reads. cpu: processor seconds, with those of the server.
    """
    parser = argparse.ArgumentParser(prog="speed", description=__doc__)
    parser.add_argument("--targets", type=int, nargs="*", default=[2000, 20000, 100000])
    options = parser.parse_args()
    repository = _HERE.parents[3]
    entry = bazel.find_entry(repository, repository)
    names = ["targets", "state", "query", "rdeps", "stream", "plumb", "ratio"]
    names += ["query's cpu", "plumb's cpu", "ratio", "plumb's MiB", "its server's MiB"]
    print(f"| {' | '.join(names)} |\n|{' --- |' * len(names)}")
    for targets in options.targets:
        with tempfile.TemporaryDirectory(prefix="plumb-speed-") as folder:
            bench = Bench(Path(folder), entry, targets)
            try:
                for state in STATES:
                    for line in lines(targets, state, bench.measure(state)):
                        print(line, flush=True)
            finally:
                bench.shut_down()


if __name__ == "__main__":
    main()
