"""Asks this checkout's own target graph, from inside a test."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
from pathlib import Path


class Graph:
    """A Bazel server of its own on this checkout, so that the caller's is not waited for.

    Use as a context manager; the server ends with it.
    """

    def __init__(self, scratch: Path) -> None:
        """Keeps the server's files in `scratch`."""
        # A source in the runfiles is a link to the checkout's own file.
        self.root = Path(__file__).resolve().parents[2]
        self._startup = [f"--output_base={scratch / 'output_base'}", "--max_idle_secs=60"]
        # A test has no home of its own, but the entry keeps its Bazel there.
        home = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
        self._environ = {**os.environ, "HOME": home}

    def __enter__(self) -> Graph:
        """Starts nothing yet: the first query does."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the server."""
        self._run("shutdown")

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._entry(), *arguments],
            cwd=self.root,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
        )

    def query(self, *arguments: str) -> list[str]:
        """The lines that `bazel query ARGUMENTS` prints, sorted.

        Raises AssertionError with Bazel's own words if the query fails.
        """
        return self._lines("query", *arguments)

    def cquery(self, *arguments: str) -> list[str]:
        """The same for `bazel cquery`, which sees what a configuration chooses."""
        return self._lines("cquery", *arguments)

    def shell(self, script: str) -> list[str]:
        """The lines that a shell script prints, sorted; its `tools/bazel query` asks this server.

        Raises AssertionError with what it wrote to stderr if it fails.
        """
        asks = f'query() {{ {shlex.join(self._entry())} query --noshow_progress "$@"; }}\n'
        done = subprocess.run(
            ["bash", "-c", asks + script.replace("tools/bazel query", "query")],
            cwd=self.root,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stderr}"
        return sorted(done.stdout.splitlines())

    def _entry(self) -> list[str]:
        return [str(self.root / "tools/bazel"), *self._startup]

    def _lines(self, command: str, *arguments: str) -> list[str]:
        done = self._run(command, "--noshow_progress", *arguments)
        assert done.returncode == 0, f"bazel {command} {' '.join(arguments)}:\n{done.stderr}"
        return sorted(done.stdout.splitlines())
