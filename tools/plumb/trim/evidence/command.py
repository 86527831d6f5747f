"""`plumb trim evidence record` and `gather`: runs tests and keeps what they ran and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlparse

import typer
from typer.core import TyperCommand, TyperGroup

from tools.plumb import bazel, streams
from tools.plumb.cells import load
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.revision import Loader
from tools.plumb.trim import ground as grounds
from tools.plumb.trim.change import Labels
from tools.plumb.trim.evidence import store
from tools.plumb.trim.evidence.store import Evidence

_LOGS = "/testlogs"
_HELP = "Records the lines that tests run and the planted faults that they kill."
Open = Callable[[Path | None], Loader]
Out = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="What to write.")]
WorkspaceOption = Annotated[
    Path | None,
    typer.Option("--workspace", metavar="DIR", help="A folder in the Bazel workspace."),
]


def register(
    app: typer.Typer, open_loader: Open, group: type[TyperGroup], command: type[TyperCommand]
) -> None:
    """Adds `evidence` to `trim`."""
    evidence = typer.Typer(cls=group, no_args_is_help=True, help=_HELP)
    app.add_typer(evidence, name="evidence")

    @evidence.command("record", cls=command)
    def record_command(
        targets: Annotated[list[str], typer.Argument(metavar="TARGET", help="Tests to run.")],
        output: Out,
        faults: Annotated[
            list[str] | None,
            typer.Option(
                metavar="FORMAT",
                help="Plant the faults of this format, such as int8_channel, under each test.",
            ),
        ] = None,
        workspace: WorkspaceOption = None,
    ) -> None:
        """Runs tests with --config=evidence and writes what they left.

        Each test function is a context of its own. With --faults every test is run again with each
        planted fault until it fails: a long time for many faults.
        """
        try:
            loader = open_loader(workspace)
            labels = _labels(loader, targets)
            logs = _run(loader, labels, tuple(faults or ()))
            _write(_gather(logs, loader, labels), output)
        except KeyboardInterrupt as error:
            raise PlumbError("interrupted", ExitCode.INTERRUPTED) from error

    @evidence.command("gather", cls=command)
    def gather_command(
        folder: Annotated[
            Path, typer.Argument(metavar="FOLDER", help="bazel-testlogs of such a run.")
        ],
        output: Out,
        workspace: WorkspaceOption = None,
    ) -> None:
        """Reads what tests left that ran with --config=evidence, here or elsewhere."""
        loader = open_loader(workspace)
        _write(_gather(_here(folder).resolve(), loader), output)


def _labels(loader: Loader, targets: Sequence[str]) -> list[str]:
    ground = grounds.of(load.of_workspace(loader))
    labels = Labels(ground.model.tests, ground.suites)
    found = dict.fromkeys(label for named in targets for label in labels.resolve(named))
    cpu = [label for label in found if ground.model.tests[label].gpus == 0]
    for label in found.keys() - set(cpu):
        loader.notify(f"{label} runs on pool {ground.model.tests[label].pool}: left out")
    if not cpu:
        raise PlumbError("no CPU test is among them; record the others on their pool, with gather.")
    return cpu


def _run(loader: Loader, labels: Sequence[str], faults: Sequence[str]) -> Path:
    """Runs the tests in the user's workspace. Returns the folder of their logs."""
    entry = bazel.Bazel(bazel.find_entry(loader.workspace, loader.workspace))
    options = ["--config=evidence", "--test_tag_filters="]
    if faults:
        options += [f"--test_env=PLUMBLINE_FAULTS={','.join(faults)}", "--test_timeout=3600"]
    with tempfile.TemporaryDirectory(prefix="plumb-") as scratch:
        events = Path(scratch) / "events.json"
        options.append(f"--build_event_json_file={events}")
        code = _bazel(loader, entry.command("test", *options, "--", *labels))
        if code == ExitCode.TESTS_FAILED:
            raise PlumbError("tests failed: what they ran proves nothing.", ExitCode.TESTS_FAILED)
        if code:
            raise PlumbError(f"Bazel ended with {code}.", ExitCode.BUILD_FAILED)
        return logs_of(events.read_text())


def logs_of(events: str) -> Path:
    """bazel-testlogs, from where the build events say that a test's log lies.

    `bazel info` would say so too, after whoever came between. Raises PlumbError if no event does.
    """
    for line in events.splitlines():
        outputs = json.loads(line).get("testResult", {}).get("testActionOutput", [])
        for output in outputs:
            path = unquote(urlparse(output.get("uri", "")).path)
            if output.get("name") == "test.log" and _LOGS in path:
                return Path(path.partition(_LOGS)[0] + _LOGS)
    raise PlumbError("Bazel tells of no test's log on this machine.", ExitCode.BUILD_FAILED)


def _bazel(loader: Loader, command: list[str]) -> int:
    """Runs it; Ctrl-C goes to Bazel as well, which is waited for."""
    process = subprocess.Popen(
        command,
        cwd=loader.workspace,
        env=bazel.environment(),
        stdin=subprocess.DEVNULL,
        # stdout is kept for what plumb itself says.
        stdout=subprocess.DEVNULL,
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        # A Bazel that is killed leaves its server at work on tests that nobody waits for.
        process.send_signal(signal.SIGINT)
        process.wait()
        raise


def _gather(logs: Path, loader: Loader, labels: Sequence[str] | None = None) -> Evidence:
    # The coverage package is loaded where it is needed alone.
    from tools.plumb.trim.evidence.gather import gather

    tests = grounds.of(load.of_workspace(loader)).model.tests
    sources = {
        label: [src.removeprefix("//").replace(":", "/").lstrip("/") for src in test.srcs]
        for label, test in tests.items()
    }
    return gather(logs, loader.workspace, labels, sources)


def _write(evidence: Evidence, output: Path) -> None:
    store.write(evidence, _here(output))
    console = streams.stdout_console()
    with streams.answering(console):
        for label, recorded in evidence.tests.items():
            lines = sum(len(numbers) for numbers in recorded.lines.values())
            console.print(
                f"{label}: {len(recorded.contexts)} contexts, {lines} lines of "
                f"{len(recorded.lines)} files, {len(recorded.killed)} of {len(recorded.planted)} "
                "planted faults killed",
                soft_wrap=True,
                markup=False,
            )


def _here(path: Path) -> Path:
    return Path(os.environ.get("BUILD_WORKING_DIRECTORY", ".")) / path
