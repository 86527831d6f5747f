"""The calls of a BUILD file: which labels stand in them, where, and with which comments.

A BUILD file is a subset of Python, so that Python's own parser reads it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tools.plumb import graph
from tools.plumb.starlark import syntax

_KEEP = re.compile(r"#\s*plumb:\s*keep\b[,:]?\s*(?P<reason>.*?)\s*$")


@dataclass(frozen=True)
class Literal:
    """A label as a BUILD file writes it.

    attribute: the argument that it stands in. keep: the reason of its `# plumb: keep, REASON`;
    "" if the comment gives none, None if there is no such comment.
    """

    label: str
    written: str
    attribute: str
    line: int
    keep: str | None
    in_select: bool


@dataclass(frozen=True)
class Call:
    """A call of a rule or a macro. name: None where it is no literal, as in a comprehension."""

    name: str | None
    function: str
    line: int
    literals: tuple[Literal, ...]

    def find(self, label: str) -> Literal | None:
        """Where `label`, in canonical form, stands in the call."""
        return next((literal for literal in self.literals if literal.label == label), None)


@lru_cache(maxsize=4096)
def read(source: str, package: str) -> tuple[Call, ...]:
    """The calls with a `name` in a BUILD file's text. Raises SyntaxError if it is no Python."""
    comments = _comments(source)
    found = []
    for node in ast.walk(syntax.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            arguments = {k.arg: k.value for k in node.keywords if k.arg}
            if "name" in arguments:
                name = arguments.pop("name")
                literal = name.value if isinstance(name, ast.Constant) else None
                literals = tuple(_literals(arguments, package, comments))
                found.append(
                    Call(
                        literal if isinstance(literal, str) else None,
                        node.func.id,
                        node.lineno,
                        literals,
                    )
                )
    return tuple(found)


def absolute(label: str, package: str) -> str:
    """A label as written in `package`, in canonical form."""
    if label.startswith(("//", "@")):
        return graph.canonical(label)
    return f"//{package}:{label.removeprefix(':')}"


def _literals(
    arguments: Mapping[str, ast.expr], package: str, comments: Mapping[int, tuple[str, bool]]
) -> Iterator[Literal]:
    for attribute, value in arguments.items():
        branches = {
            id(part) for call in ast.walk(value) if _is_select(call) for part in _inner(call)
        }
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield Literal(
                    absolute(node.value, package),
                    node.value,
                    attribute,
                    node.lineno,
                    _keep(node.lineno, comments),
                    id(node) in branches,
                )


def _is_select(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "select"
    )


def _inner(call: ast.AST) -> Iterator[ast.AST]:
    return ast.walk(call)


def _keep(line: int, comments: Mapping[int, tuple[str, bool]]) -> str | None:
    lines = [line]
    # Above the label, lines that hold nothing but a comment belong to it.
    while comments.get(lines[-1] - 1, ("", False))[1]:
        lines.append(lines[-1] - 1)
    for number in lines:
        matched = _KEEP.search(comments.get(number, ("", False))[0])
        if matched:
            return matched["reason"]
    return None


def _comments(source: str) -> dict[int, tuple[str, bool]]:
    """Line to its comment, and whether the comment is all that the line holds."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            alone = not token.line[: token.start[1]].strip()
            found[token.start[0]] = (token.string, alone)
    return found
