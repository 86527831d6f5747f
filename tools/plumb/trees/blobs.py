"""Reads many blobs through one git process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field

from tools.plumb.errors import ExitCode, PlumbError

# Of a blob that is kept for the other revision, which mostly has it too.
_SMALL = 1 << 20


@dataclass
class Blobs:
    """Blobs by object id. start: starts `git cat-file --batch`; kept: what is known already."""

    start: Callable[[], subprocess.Popen[bytes]]
    kept: dict[str, bytes] = field(default_factory=dict, repr=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def read(self, object_id: str) -> bytes:
        """Content of a blob. Raises PlumbError if git does not have it."""
        if object_id in self.kept:
            return self.kept[object_id]
        process = self._process = self._process or self.start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(f"{object_id}\n".encode())
            process.stdin.flush()
            header = process.stdout.readline().split()
        except BrokenPipeError:
            header = []
        if len(header) != 3 or header[1] != b"blob":
            raise PlumbError(
                f"git cannot read the blob {object_id}; `git fsck` says what is wrong.",
                ExitCode.ENVIRONMENT,
            )
        content = process.stdout.read(int(header[2]))
        process.stdout.read(1)
        if len(content) < _SMALL:
            self.kept[object_id] = content
        return content

    def close(self) -> None:
        """Ends the process; the next read starts another."""
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.wait()
