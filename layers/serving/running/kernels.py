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
        """Begins to count, where Triton is installed; another listener is called as before."""
        if importlib.util.find_spec("triton") is None:
            return
        # Not by an import statement: it comes with the kernels, and a CPU has neither.
        compilation = importlib.import_module("triton.knobs").compilation
        before = compilation.listener

        def listener(*, src: Any, cache_hit: bool, **others: Any) -> None:
            self.took(_describe(src), is_cached=cache_hit)
            if before is not None:
                before(src=src, cache_hit=cache_hit, **others)

        compilation.listener = listener

    def took(self, kernel: str, *, is_cached: bool) -> None:
        """A kernel was prepared.

        Args:
            kernel: what it is, for people.
            is_cached: whether the cache on disk had it.
        """
        self.prepared += 1
        self.compiled += not is_cached
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


def _describe(source: Any) -> str:
    """Module and name, the arguments' types, and the constants: of `triton.compiler.ASTSource`."""
    module = getattr(source.fn, "__module__", "?")
    kinds = ", ".join(f"{name}: {kind}" for name, kind in source.signature.items())
    constants = ", ".join(f"{place}: {value}" for place, value in source.constants.items())
    return f"{module}.{source.name}({kinds}; constants {constants}; {source.attrs})"
