"""The count of kernels, with something in Triton's place that tells of them as Triton does."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from layers.serving.running.kernels import KernelWatch


class Pretended(ModuleType):
    """`triton.knobs`, and what `triton.compiler.compile` does with its listener."""

    def __init__(self) -> None:
        super().__init__("triton.knobs")
        self.compilation = SimpleNamespace(listener=None)

    def prepare(self, kernel: str, *, is_cached: bool) -> None:
        """A launch of a kernel that is new to this process."""
        source = SimpleNamespace(
            name=kernel,
            fn=SimpleNamespace(__module__="kernels"),
            signature={"a_ptr": "*bf16", "SIZE": "constexpr"},
            constants={(1,): 16},
            attrs={(0,): [["tt.divisibility", 16]]},
        )
        self.compilation.listener(
            src=source, metadata={}, metadata_group={}, times=None, cache_hit=is_cached
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

    triton.prepare("early", is_cached=False)
    triton.prepare("cached", is_cached=True)
    assert (watch.prepared, watch.compiled, watch.late_since()) == (2, 1, 0)
    assert not capsys.readouterr().err

    watch.expect_no_more()
    triton.prepare("late", is_cached=True)
    assert (watch.prepared, watch.compiled, watch.late) == (3, 1, 1)
    says = "rank-1: prepared late: kernels.late(a_ptr: *bf16, SIZE: constexpr; constants (1,): 16; "
    assert capsys.readouterr().err.startswith(says)
    assert (watch.late_since(), watch.late_since()) == (1, 0)


def test_a_listener_that_was_there_is_called_still(triton: Pretended) -> None:
    seen: list[dict[str, Any]] = []
    triton.compilation.listener = lambda **details: seen.append(details)
    KernelWatch("rank-1").install()

    triton.prepare("kernel", is_cached=False)

    (details,) = seen
    assert list(details) == ["src", "cache_hit", "metadata", "metadata_group", "times"]
    assert (details["src"].name, details["cache_hit"]) == ("kernel", False)


def test_without_triton_there_is_nothing_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    watch = KernelWatch("scheduler")
    watch.install()
    assert watch.prepared == 0
