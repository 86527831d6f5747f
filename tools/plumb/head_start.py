"""Starts plumb's own Bazel server while git still writes the checkout that it is to load.

A server takes a second to start, and a checkout of ten thousand files about as long. All that a
starting server reads are the files that steer Bazel, so these are written first.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tools.plumb.bazel import Bazel
from tools.plumb.errors import PlumbError
from tools.plumb.steering.inputs import SteeringInputs
from tools.plumb.trees.files import FileTable

_MODES = {"100644": 0o644, "100755": 0o755}


@dataclass
class HeadStart:
    """One client that was started early; nothing depends on whether it succeeds."""

    _client: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def begin(self, bazel: Bazel, checkout: Path) -> None:
        """Starts the server of the folder's output base, unless one is alive."""
        try:
            self._client = bazel.start_server(checkout)
        except PlumbError:
            # Whoever asks this Bazel next meets the same, and says so.
            self._client = None

    def end(self) -> None:
        """Waits for the server, for which the next client would have to wait as well."""
        client, self._client = self._client, None
        if client is None:
            return
        try:
            client.wait()
        except BaseException:
            client.kill()
            client.wait()
            raise


def write_steering(files: FileTable, steering: SteeringInputs, checkout: Path) -> None:
    """Writes the files that steer Bazel, links and submodules apart, in a folder with no others."""
    for path in sorted(steering.paths()):
        entry = files.entries.get(path)
        mode = _MODES.get(entry.mode) if entry is not None else None
        if entry is None or mode is None:
            continue
        file = checkout / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(files.read(entry))
        file.chmod(mode)
