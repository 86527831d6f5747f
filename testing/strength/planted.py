"""Faults put into the layers that a layer test builds for itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from testing.harness import linear
from testing.harness.linear import LinearCase, LoadedLinear
from testing.oracles.checkpoints import LinearCheckpoint
from testing.strength.fault import Fault
from testing.strength.fp8 import faults as fp8
from testing.strength.int8 import faults as int8
from testing.strength.linear_bench import LinearBench, Stream
from testing.strength.mx import faults as mx
from testing.strength.nvfp4 import faults as nvfp4

_FAULTS: list[Fault] = [*int8.FAULTS, *fp8.FAULTS, *nvfp4.FAULTS, *mx.FAULTS]
Change = Callable[[Stream], Stream]


def _as_it_is(tensors: Stream) -> Stream:
    return tensors


@dataclass(frozen=True)
class _Bench(LinearBench):
    """A test's own layer, as the setting that a fault is planted in."""

    make: Callable[[Change], LoadedLinear] = field(kw_only=True)

    def build(self, change: Change = _as_it_is) -> LoadedLinear:
        """The test's layer, its checkpoint altered as the fault wants."""
        return self.make(change)


@dataclass
class Planting:
    """One fault while tests run. met: layers of its format that were built; placed: that got it."""

    fmt: str
    fault: Fault
    met: int = 0
    placed: int = 0

    def __str__(self) -> str:
        return f"{self.fmt}-{self.fault.name}"

    @contextmanager
    def planted(self) -> Iterator[None]:
        """While it lasts, every module that took `linear.build` gets the fault with it."""
        original = linear.build
        with ExitStack() as patches, ExitStack() as stack:

            def build(*args: Any, **options: Any) -> LoadedLinear:
                return self._build(original, stack, *args, **options)

            for module in list(sys.modules.values()):
                if vars(module).get("build") is original:
                    patches.enter_context(mock.patch.object(module, "build", build))
            yield

    def _build(
        self,
        original: Callable[..., LoadedLinear],
        stack: ExitStack,
        case: LinearCase,
        checkpoint: LinearCheckpoint,
        device: Any,
        change: Change = _as_it_is,
    ) -> LoadedLinear:
        """`linear.build` with the fault; without it where it does not fit."""
        if case.method.format.name != self.fmt:
            return original(case, checkpoint, device, change)
        self.met += 1

        def make(further: Change) -> LoadedLinear:
            return original(case, checkpoint, device, lambda tensors: further(change(tensors)))

        try:
            loaded = self.fault.plant(_Bench(case, make=make), stack)
        except Exception:  # of any kind: an edit looks for a shard or a shape that is not here
            import traceback

            traceback.print_exc(file=sys.__stderr__)
            stack.close()
            return original(case, checkpoint, device, change)
        self.placed += 1
        assert isinstance(loaded, LoadedLinear)
        return loaded


def plantings_of(fmt: str) -> list[Planting]:
    """Each fault that the format can have; none for an unknown format."""
    return [Planting(fmt, fault) for fault in _FAULTS if fmt in fault.formats]


def known_formats() -> list[str]:
    """The formats that have faults, sorted."""
    return sorted({fmt for fault in _FAULTS for fmt in fault.formats})
