"""Which Triton kernels this process prepared, and when: for one that is new its caller waits."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any


class KernelWatch:
    """Counts the kernels that Triton makes ready to launch in this process.

    Triton keeps a kernel for each set of dtypes, constants and alignments. The first launch of each
    compiles it, or reads it from the cache on disk. What others compile, such as FlashInfer, is
    not seen.

    Args:
        name: of this process, for the line about a kernel that comes late.

    Attributes:
        prepared: since the start.
        compiled: those of them that were not in the cache on disk.
        late: those since `expect_no_more`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._expects_more = True
        self._told = 0
        self.prepared = self.compiled = self.late = 0

    def install(self) -> None:
        """Begins to count, where Triton is installed; other hooks are called as before."""
        if importlib.util.find_spec("triton") is None:
            return
        # Not by an import statement: it comes with the kernels, and a CPU has neither.
        knobs = importlib.import_module("triton.knobs")
        hook, listener = knobs.runtime.jit_post_compile_hook, knobs.compilation.listener

        def prepared(*arguments: Any, **details: Any) -> Any:
            self.took(details["repr"])
            return hook(*arguments, **details) if hook is not None else None

        def compiled(*arguments: Any, **details: Any) -> None:
            self.compiled += not details["cache_hit"]
            if listener is not None:
                listener(*arguments, **details)

        knobs.runtime.jit_post_compile_hook = prepared
        knobs.compilation.listener = compiled

    def took(self, kernel: str) -> None:
        """A kernel was prepared.

        Args:
            kernel: its name, constants and arguments, as Triton writes them.
        """
        self.prepared += 1
        if not self._expects_more:
            self.late += 1
            print(f"{self._name}: prepared late: {kernel}", file=sys.stderr, flush=True)

    def expect_no_more(self) -> None:
        """From now on a kernel comes late: somebody waits for a token."""
        self._expects_more = False

    def late_since(self) -> int:
        """Late ones since the last call."""
        new = self.late - self._told
        self._told = self.late
        return new
