from __future__ import annotations

import ast
import sys

import pytest

from tools.plumb.starlark import syntax

# Less deep than what Python parses, and deeper than its visitors go.
DEEP = "x = " + " + ".join(["'a'"] * 900)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("x = 1\nx = (\n", 2, "never closed"),
        ("import os\n\0x = 1\n", 1, "null bytes"),
        (f"x = {'-' * 100_000}1\n", 1, "nested too deeply"),
        (f"x = {'(' * 5000}{')' * 5000}\n", 1, "nested"),
        ("x = '\udcff'\n", 1, "surrogates"),
    ],
)
def test_what_python_cannot_parse_is_a_syntax_error_with_a_line(
    text: str, line: int, says: str
) -> None:
    with pytest.raises(SyntaxError, match=says) as raised:
        syntax.parse(text)
    assert raised.value.lineno == line


def test_a_visitor_goes_down_a_deep_tree() -> None:
    tree, before = syntax.parse(DEEP), sys.getrecursionlimit()
    with pytest.raises(RecursionError):
        ast.NodeVisitor().visit(tree)
    with syntax.visiting():
        ast.NodeVisitor().visit(tree)
    assert sys.getrecursionlimit() == before


def test_what_is_too_deep_even_then_is_a_syntax_error() -> None:
    def forever() -> None:
        forever()

    with pytest.raises(SyntaxError, match="nested too deeply") as raised, syntax.visiting():
        forever()
    assert raised.value.lineno == 1
