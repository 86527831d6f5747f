"""Finds the revision's own Bazel entry and runs it with an output base of our own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.plumb import interrupt
from tools.plumb.cache import Notify
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.graph import Graph

ENTRY_VARIABLE = "PLUMBLINE_BAZEL"
_IDLE_SECONDS = 900
# A server that mostly answers one question saves half of its time by not compiling for a long run,
# and half of its memory by collecting garbage in the simplest way, which is quick where most of
# what one question makes has room at once.
_SHORT_RUN = tuple(
    f"--host_jvm_args={option}"
    for option in ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms384m", "-Xmn256m")
)
# Set by `bazel run` or by a test's runner for this process, wrong for a Bazel below it.
_RUN_VARIABLES = (
    "BUILD_WORKSPACE_DIRECTORY",
    "BUILD_WORKING_DIRECTORY",
    "RUNFILES_DIR",
    "JAVA_RUNFILES",
    "PYTHON_RUNFILES",
    "RUNFILES_MANIFEST_FILE",
    "RUNFILES_MANIFEST_ONLY",
    "PYTHONPATH",
    "PYTHONSAFEPATH",
    "BAZELISK_SKIP_WRAPPER",
)
EVERYTHING = "//...:*"
# Beside plumb in its repository, to which the runfiles of `bazel run` are links.
_OWN = Path(__file__).resolve().parents[1] / "bazel"
# How plumb has the graph written.
QUERY = (
    "query",
    "--output=streamed_proto",
    "--order_output=no",
    "--nokeep_going",
    "--noproto:locations",
    "--noproto:flatten_selects",
    "--proto:definition_stack",
    "--proto:rule_inputs_and_outputs",
    "--consistent_labels",
    "--color=no",
    "--curses=no",
    # Of a hundred thousand events, that nobody looks at.
    "--generate_json_trace_profile=no",
)
# Whether attributes are written that nobody gave a value: four fifths of what a rule has.
_DEFAULTS = {True: "--proto:default_values", False: "--noproto:default_values"}


class GraphError(PlumbError):
    """Bazel could not load a revision's packages. bazel_code: what Bazel returned."""

    def __init__(self, message: str, bazel_code: int) -> None:
        super().__init__(message, ExitCode.GRAPH_FAILED)
        self.bazel_code = bazel_code


@dataclass(frozen=True)
class Place:
    """Where tests run. user_workspace: its tools/bazel is taken where `workspace` has none.

    output_base: as in Bazel.
    """

    workspace: Path
    user_workspace: Path
    output_base: Path | None = None

    def bazel(self) -> Bazel:
        """The Bazel to run here. Raises PlumbError if there is none."""
        return Bazel(find_entry(self.workspace, self.user_workspace), self.output_base)


@dataclass(frozen=True)
class Bazel:
    """How to run Bazel.

    output_base: None leaves Bazel's choice, and so the user's server. short_run: its server is
    for queries alone.
    """

    entry: Path
    output_base: Path | None = None
    short_run: bool = False

    def command(self, *arguments: str) -> list[str]:
        """The command line for `arguments`."""
        startup = []
        if self.output_base is not None:
            startup = [f"--output_base={self.output_base}", f"--max_idle_secs={_IDLE_SECONDS}"]
        if self.short_run:
            startup += _SHORT_RUN
        return [str(self.entry), *startup, *arguments]

    def start_server(self, workspace: Path) -> subprocess.Popen[bytes] | None:
        """A client that starts the server of our output base; None if one is alive there."""
        if self.output_base is None or _is_alive(self.output_base):
            return None
        return _start(self.command("version"), workspace, subprocess.DEVNULL, subprocess.DEVNULL)

    def graph(
        self,
        workspace: Path,
        notify: Notify,
        *,
        defaults: bool = True,
        packages: Sequence[str] | None = None,
    ) -> Graph:
        """The target graph of `workspace`, main repository only, or of `packages` of it.

        defaults: with attributes that nobody gave a value. packages: such as //a/b.
        Raises GraphError with Bazel's own words if a package does not load.
        """
        notify("reading the target graph with Bazel" + ("" if packages is None else ", in part"))
        # The client alone says its version, while the server is at work.
        with _start([str(self.entry), "--version"], workspace, subprocess.DEVNULL) as version:
            try:
                found = self._query(workspace, _DEFAULTS[defaults], packages)
            except BaseException:
                version.kill()
                raise
            release = version.communicate()[0].decode(errors="replace").strip()
        # A wrapper that adds options of its own spoils the short form.
        release = release or self._release(workspace)
        return Graph(found.targets, release, found.loads)

    def _release(self, workspace: Path) -> str:
        result = subprocess.run(
            self.command("info", "release"),
            cwd=workspace,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        code = result.returncode
        if code != 0:
            said = _explain("info release", self.entry, code, result.stderr)
            raise PlumbError(said, ExitCode.ENVIRONMENT)
        release = result.stdout.decode(errors="replace").strip()
        if not release:
            raise self._no_bazel("printed nothing for `info release`, though it ended with 0")
        return release

    def _query(self, workspace: Path, option: str, packages: Sequence[str] | None) -> Graph:
        if packages is None:
            command = self.command(*QUERY, option, EVERYTHING)
            found = self._read(command, workspace, f"query {EVERYTHING}")
            if not found.targets:
                # Bazel itself ends with 7 where there are no packages.
                asked = f"query {EVERYTHING}"
                raise self._no_bazel(f"printed no targets for `{asked}`, though it ended with 0")
            return found
        with tempfile.NamedTemporaryFile("w", suffix=".query") as file:
            # A command line is too short for the names of thousands of packages.
            file.write(f"set({' '.join(_all_of(package) for package in packages)})")
            file.flush()
            command = self.command(*QUERY, option, f"--query_file={file.name}")
            return self._read(command, workspace, f"query {_all_of(packages[0])} ...")

    def _read(self, command: list[str], workspace: Path, asked: str) -> Graph:
        # Most answers need no Bazel, and then none of this.
        from tools.plumb.stream import read

        with tempfile.TemporaryFile() as errors:
            process = _start(command, workspace, errors.fileno())
            try:
                assert process.stdout is not None
                parsed = read.read(process.stdout)
                code = process.wait()
            except ValueError as error:
                process.kill()
                process.wait()
                raise GraphError(f"cannot read Bazel's target graph: {error}", 0) from error
            except BaseException:
                process.terminate()
                process.wait()
                raise
            if code != 0:
                errors.seek(0)
                raise GraphError(_explain(asked, self.entry, code, errors.read()), code)
        return parsed

    def _no_bazel(self, what: str) -> PlumbError:
        named = (
            f"unset {ENTRY_VARIABLE} or name" if os.environ.get(ENTRY_VARIABLE) else "give plumb"
        )
        return PlumbError(
            f"{self.entry} {what}, so it is no Bazel; {named} one that works.",
            ExitCode.ENVIRONMENT,
        )


def can_name(package: str) -> bool:
    """True if a query can ask for the package, such as //a/b, alone."""
    return package.isascii() and not ('"' in package and "'" in package)


def _all_of(package: str) -> str:
    quote = "'" if '"' in package else '"'
    return f"{quote}{package}:*{quote}"


def find_entry(revision_tree: Path, workspace: Path) -> Path:
    """The Bazel to run for a revision checked out in `revision_tree`.

    In order: $PLUMBLINE_BAZEL, the revision's own tools/bazel, that of the user's workspace,
    bazel or bazelisk on PATH, the one that plumb's own repository brings. Raises PlumbError if
    there is none.
    """
    named = os.environ.get(ENTRY_VARIABLE)
    if named:
        if shutil.which(named) is None:
            raise PlumbError(
                f"{ENTRY_VARIABLE} is '{named}', which is not a program; unset it or name a Bazel.",
                ExitCode.ENVIRONMENT,
            )
        return Path(shutil.which(named) or named).absolute()
    for folder in (revision_tree, workspace):
        entry = folder / "tools" / "bazel"
        if os.access(entry, os.X_OK) and entry.is_file():
            return entry
    for name in ("bazel", "bazelisk"):
        found = shutil.which(name)
        if found:
            return Path(found)
    if os.access(_OWN, os.X_OK):
        return _OWN
    raise PlumbError(
        "there is no Bazel: the workspace has no tools/bazel, and neither bazel nor bazelisk "
        "is on PATH. Install bazelisk, or name a Bazel with PLUMBLINE_BAZEL.",
        ExitCode.ENVIRONMENT,
    )


def environment() -> dict[str, str]:
    """This process's environment without what `bazel run` set for it."""
    return {name: value for name, value in os.environ.items() if name not in _RUN_VARIABLES}


def _is_alive(output_base: Path) -> bool:
    try:
        pid = int((output_base / "server" / "server.pid.txt").read_text())
    except (OSError, ValueError):
        return False
    return Path(f"/proc/{pid}").exists()


def _start(
    command: Sequence[str], workspace: Path, errors: int, output: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    interrupt.check()
    try:
        return subprocess.Popen(
            command,
            cwd=workspace,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        )
    except OSError as error:
        raise PlumbError(
            f"cannot run {command[0]}: {error.strerror}.", ExitCode.ENVIRONMENT
        ) from error


def _explain(asked: str, entry: Path, code: int, errors: bytes) -> str:
    text = errors.decode(errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("ERROR", "FATAL", "Error"))] or lines
    failed = f"`{entry.name} {asked}` failed with exit code {code}"
    if not telling:
        return f"{failed} and said nothing. The program is {entry}; is it a Bazel?"
    return "\n".join([f"{failed}:", *(f"  {line}" for line in telling[-12:])])
