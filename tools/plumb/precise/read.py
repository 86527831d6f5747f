"""What Bazel would hand to tests: digests of their actions and of every file that they can read.

A test runs again exactly if its action or one of its inputs differs. The action's key is Bazel's
own; the inputs are the files of its runfiles, which are built for it, without running the test.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.plumb import bazel
from tools.plumb.answer.words import counted
from tools.plumb.cache import Notify
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.graph import canonical


class NotBuiltError(Exception):
    """Bazel could not build what tests read; the message is its own last error."""


@dataclass(frozen=True)
class Reader:
    """Reads the inputs of tests in one checkout.

    options: of `bazel build`, such as a --config. where: which revision this is, in words.
    """

    place: bazel.Place
    options: Sequence[str]
    notify: Notify
    where: str = ""

    def digests(self, labels: Sequence[str]) -> dict[str, str]:
        """Label to the digest of what Bazel would run and hand to it.

        Raises NotBuiltError if not all can be built, PlumbError if there is no Bazel.
        """
        self.notify(f"building what {counted(len(labels), 'test')} would read {self.where}")
        with tempfile.TemporaryDirectory(prefix="plumb-") as scratch:
            patterns = Path(scratch) / "targets"
            patterns.write_text("".join(f"{label}\n" for label in labels))
            query = Path(scratch) / "query"
            named = " ".join(f'"{label}"' for label in labels)
            query.write_text(f'mnemonic("TestRunner", set({named}))')
            made = (
                "--build_runfile_manifests",
                "--keep_going",
                f"--target_pattern_file={patterns}",
            )
            self._bazel("build", *made)
            keys = _keys(self._bazel("aquery", "--output=jsonproto", f"--query_file={query}"))
            folder = Path(self._bazel("info", "bazel-bin").decode().strip())
        found = {}
        for label in labels:
            manifest = folder / f"{_path(label)}.runfiles_manifest"
            if label in keys and manifest.is_file():
                files = "".join(sorted(self._files(manifest)))
                text = f"{keys[label]}\n{files}"
                found[label] = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
        return found

    def _files(self, manifest: Path) -> Iterator[str]:
        """A line for each file of a manifest: where the test finds it, and what tells it apart."""
        for line in manifest.read_text(errors="surrogateescape").splitlines():
            name, _, target = line.partition(" ")
            yield f"{name} {self._identity(target)}\n"

    def _identity(self, target: str) -> str:
        if not target:
            return "empty"
        if Path(target).is_relative_to(self._external):
            # As the lock or WORKSPACE defines it; the graph has compared that.
            return target
        path = Path(target)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file())
            return " ".join(f"{p.relative_to(path)}={_content(p)}" for p in inside)
        return _content(path)

    @cached_property
    def _external(self) -> Path:
        return Path(self._bazel("info", "output_base").decode().strip()) / "external"

    def _bazel(self, command: str, *arguments: str) -> bytes:
        called = self.place.bazel().command(command, *self.options, *arguments)
        try:
            done = subprocess.run(
                called,
                cwd=self.place.workspace,
                env=bazel.environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except OSError as error:
            raise PlumbError(
                f"cannot run {called[0]}: {error.strerror}.", ExitCode.ENVIRONMENT
            ) from error
        if done.returncode:
            lines = done.stderr.decode(errors="replace").splitlines()
            told = [line for line in lines if line.startswith(("ERROR", "FATAL"))] or lines[-1:]
            raise NotBuiltError(
                told[0] if told else f"bazel {command} ended with {done.returncode}"
            )
        return done.stdout


def _keys(printed: bytes) -> dict[str, str]:
    """Label to Bazel's keys of its test actions, from `aquery --output=jsonproto`."""
    content: Mapping[str, list[dict[str, object]]] = json.loads(printed)
    labels = {
        target["id"]: canonical(str(target["label"])) for target in content.get("targets", [])
    }
    found: dict[str, str] = {}
    for action in content.get("actions", []):
        label = labels[action["targetId"]]
        told = [action.get(name) for name in ("actionKey", "arguments", "executionPlatform")]
        told.append(action.get("executionInfo"))
        found[label] = found.get(label, "") + json.dumps(told, sort_keys=True)
    return found


def _path(label: str) -> str:
    package, _, name = label.removeprefix("//").partition(":")
    return f"{package}/{name}" if package else name


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        # Bazel itself does not notice the bit, but whoever runs the file does.
        return f"{digest} {'x' if os.access(path, os.X_OK) else ''}"
    except OSError as error:
        return f"unreadable: {error.strerror}"
