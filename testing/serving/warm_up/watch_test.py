"""The count of kernels, with something in Triton's place that calls its hooks as Triton does."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from layers.serving.running.kernels import KernelWatch


class Pretended(ModuleType):
    """`triton.knobs`: the hooks of `triton.runtime.jit` and `triton.compiler.compiler`."""

    def __init__(self) -> None:
        super().__init__("triton.knobs")
        self.runtime = SimpleNamespace(jit_post_compile_hook=None)
        self.compilation = SimpleNamespace(listener=None)

    def prepare(self, kernel: str, *, is_cached: bool) -> Any:
        """What a launch of a kernel does that is new to this process."""
        times = SimpleNamespace()
        self.compilation.listener(
            src=None, metadata={}, metadata_group={}, times=times, cache_hit=is_cached
        )
        return self.runtime.jit_post_compile_hook(
            key="", repr=kernel, fn=None, compile={}, is_manual_warmup=False, already_compiled=False
        )


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch) -> Pretended:
    knobs = Pretended()
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    monkeypatch.setitem(sys.modules, "triton.knobs", knobs)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "triton" or None)
    return knobs


def test_kernels_are_counted_and_late_ones_named(
    triton: Pretended, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = KernelWatch("rank-1")
    watch.install()

    triton.prepare("early(a, b)", is_cached=False)
    triton.prepare("cached(a)", is_cached=True)
    assert (watch.prepared, watch.compiled, watch.late_since()) == (2, 1, 0)
    assert not capsys.readouterr().err

    watch.expect_no_more()
    triton.prepare("late(a)", is_cached=True)
    assert (watch.prepared, watch.compiled, watch.late) == (3, 1, 1)
    assert capsys.readouterr().err == "rank-1: prepared late: late(a)\n"
    assert (watch.late_since(), watch.late_since()) == (1, 0)


def test_hooks_that_were_there_are_called_still(triton: Pretended) -> None:
    seen: list[str] = []

    def before(**details: Any) -> int:
        seen.append(details["repr"])
        return 7

    triton.runtime.jit_post_compile_hook = before
    triton.compilation.listener = lambda **details: seen.append(f"{details['cache_hit']}")
    KernelWatch("rank-1").install()

    assert triton.prepare("kernel", is_cached=False) == 7
    assert seen == ["False", "kernel"]


def test_without_triton_there_is_nothing_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    watch = KernelWatch("scheduler")
    watch.install()
    assert watch.prepared == 0
