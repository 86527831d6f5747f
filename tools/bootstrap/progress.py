"""Shows how far a stage is: a bar that redraws on a terminal, a few plain lines elsewhere."""

import sys
import time
from typing import TextIO

_WIDTH = 28
_REDRAW_SECONDS = 0.1
_PLAIN_LINE_SECONDS = 10.0


class Progress:
    """One stage after another on one stream; `total` 0 means that the end is not known."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._on_terminal = self._stream.isatty()
        self._label, self._total, self._unit = "", 0, ""
        self._started = self._shown = 0.0

    def start(self, label: str, total: int = 0, unit: str = "") -> None:
        """Begins a stage. `total` counts in `unit`; unit `MB` takes bytes and shows megabytes."""
        self._label, self._total, self._unit = label, total, unit
        self._started = time.monotonic()
        self._shown = 0.0 if self._on_terminal else self._started
        if self._on_terminal:
            self.update(0)

    def update(self, done: int = 0) -> None:
        """Says that `done` of the total is reached; draws only as often as helps a reader."""
        now = time.monotonic()
        pause = _REDRAW_SECONDS if self._on_terminal else _PLAIN_LINE_SECONDS
        if now - self._shown < pause:
            return
        self._shown = now
        if self._on_terminal:
            self._stream.write(f"\r\033[K{self._bar(done)}")
        else:
            self._stream.write(f"{self._label}: {self._amount(done)}\n")
        self._stream.flush()

    def finish(self) -> None:
        """Ends the stage with one line that stays."""
        seconds = time.monotonic() - self._started
        amount = f", {self._amount(None)}" if self._total else ""
        clear = "\r\033[K" if self._on_terminal else ""
        self._stream.write(f"{clear}{self._label}: done in {seconds:.1f} s{amount}\n")
        self._stream.flush()

    def note(self, text: str) -> None:
        """Prints a line of its own."""
        self._stream.write(("\r\033[K" if self._on_terminal else "") + text + "\n")
        self._stream.flush()

    def _amount(self, done: int | None) -> str:
        divisor = 1_000_000 if self._unit == "MB" else 1
        total = f"{self._total // divisor} {self._unit}".rstrip()
        if done is None:
            return total
        if not self._total:
            return f"{time.monotonic() - self._started:.0f} s"
        return f"{min(done, self._total) // divisor}/{total}"

    def _bar(self, done: int) -> str:
        if not self._total:
            return f"{self._label}: {self._amount(done)}"
        filled = _WIDTH * min(done, self._total) // self._total
        return f"{self._label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {self._amount(done)}"
