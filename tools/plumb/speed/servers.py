"""What a Bazel server has used so far, as Linux counts it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Server:
    """The server of an output base, if it runs. All figures are 0 if none does."""

    output_base: Path | None

    def cpu(self) -> float:
        """Processor seconds since it started."""
        try:
            fields = self._read("stat").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak(self) -> float:
        """The most memory that it had, in MiB."""
        try:
            lines = self._read("status").splitlines()
        except OSError:
            return 0.0
        found = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return int(next(found, "0")) / 1024

    def _read(self, name: str) -> str:
        if self.output_base is None:
            raise FileNotFoundError
        number = (self.output_base / "server/server.pid.txt").read_text().strip()
        return Path("/proc", number, name).read_text()
