from __future__ import annotations

from tools.plumb.answer.words import counted


def test_one_is_singular_and_none_is_not() -> None:
    assert [counted(n, "test") for n in (0, 1, 2)] == ["0 tests", "1 test", "2 tests"]
