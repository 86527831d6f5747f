"""What a test sets: server flags, constant arguments, thresholds and other literals.

Two tests of one shape differ in these alone.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tools.plumb.trim.source.syntax import is_constant, is_flags, last_name

FLAG, THRESHOLD, ARGUMENT, CONSTANT = "flag", "threshold", "argument", "constant"
# What a figure that a test holds a run to is called.
_LIMIT = re.compile(
    r"(?:^|_)(?:threshold|limit|expected|score|accurac(?:y|ie)|least|baseline|[ar]?tol)s?(?:_|$)"
)
HOLE = "…"


@dataclass(frozen=True)
class Setting:
    """One literal of a test.

    kind: FLAG (`--x 4` of a list of arguments), THRESHOLD (of a comparison, or called so), ARGUMENT
        (a keyword of a call) or CONSTANT.
    name: the flag, the call and keyword, or the code around it with a hole.
    value: as it stands in the source; "" for a flag that takes none.
    """

    kind: str
    name: str
    value: str
    line: int


def flags_of(elements: Sequence[ast.expr]) -> list[tuple[str, str, int]]:
    """(flag, its value or "", line) of a list of command-line arguments.

    Elements that are no literal stand as their source text.
    """
    found: list[tuple[str, str, int]] = []
    for element in elements:
        text = _argument(element)
        if text.startswith("--"):
            name, _, value = text.partition("=")
            found.append((name, value, element.lineno))
        elif found:
            name, value, line = found[-1]
            found[-1] = (name, f"{value} {text}".strip(), line)
        else:
            found.append((text, "", element.lineno))
    return found


def settings(tree: ast.AST) -> list[Setting]:
    """Every literal of the tree in the order of the source."""
    return list(_walk(tree, None))


class Holes(ast.NodeTransformer):
    """Replaces each literal by a hole, and each list of arguments by FLAGS.

    Keywords of calls that are literals go: they are settings of their own, and may lack.
    """

    def visit(self, node: ast.AST) -> ast.AST:
        """The node without its literals."""
        if isinstance(node, ast.List | ast.Tuple) and is_flags(node):
            return ast.Name("FLAGS", ast.Load())
        return super().visit(node)  # type: ignore[no-any-return]

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """What stands in the braces."""
        inside = [value for value in node.values if isinstance(value, ast.FormattedValue)]
        values: list[Any] = [self.visit(value.value) for value in inside]
        return ast.Tuple(values, ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The call without its keywords that are literals."""
        node.keywords = [k for k in node.keywords if k.arg is None or not is_constant(k.value)]
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A hole; None is no literal, but the lack of a value."""
        return ast.Name(HOLE, ast.Load()) if node.value is not None else node


@dataclass
class _Around:
    """The statement around a literal, what it reads like, and the literals met in it so far."""

    statement: ast.stmt
    met: int = 0

    @cached_property
    def text(self) -> str:
        return ast.unparse(Holes().visit(copy.deepcopy(self._head))).splitlines()[0]

    @property
    def _head(self) -> ast.stmt:
        # Of a class or a loop the first line is enough, and its body need not be copied.
        if not hasattr(self.statement, "body"):
            return self.statement
        head = copy.copy(self.statement)
        head.body = [ast.Pass()]
        return head

    @cached_property
    def judges(self) -> bool:
        if isinstance(self.statement, ast.Assert):
            return True
        call = self.statement.value if isinstance(self.statement, ast.Expr) else None
        if isinstance(call, ast.Call) and last_name(call).startswith("assert"):
            return True
        targets = self.statement.targets if isinstance(self.statement, ast.Assign) else []
        return any(is_limit(last_name(target)) for target in targets)


def is_limit(name: str) -> bool:
    """True if a thing of that name is a figure that a run is held to."""
    return _LIMIT.search(name.lower()) is not None


def _argument(element: ast.expr) -> str:
    if isinstance(element, ast.Constant):
        return str(element.value)
    return ast.unparse(element)


def _walk(node: ast.AST, around: _Around | None) -> Iterator[Setting]:
    if isinstance(node, ast.stmt):
        around = _Around(node)
    if isinstance(node, ast.List | ast.Tuple) and is_flags(node):
        yield from (Setting(FLAG, name, v, line) for name, v, line in flags_of(node.elts))
    elif isinstance(node, ast.Call):
        yield from _of_call(node, around)
    elif isinstance(node, ast.Constant):
        if around is not None and node.value is not None and node.value is not Ellipsis:
            yield _literal(node, around)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _walk(child, around)


def _of_call(node: ast.Call, around: _Around | None) -> Iterator[Setting]:
    for part in (node.func, *node.args):
        yield from _walk(part, around)
    for keyword in node.keywords:
        if keyword.arg and is_constant(keyword.value) and not is_flags(keyword.value):
            name = f"{last_name(node)}({keyword.arg}={HOLE})"
            kind = THRESHOLD if is_limit(keyword.arg) else ARGUMENT
            yield Setting(kind, name, ast.unparse(keyword.value), keyword.value.lineno)
        else:
            yield from _walk(keyword.value, around)


def _literal(node: ast.Constant, around: _Around) -> Setting:
    number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
    kind = THRESHOLD if number and around.judges else CONSTANT
    around.met += 1
    which = f" ({around.met}.)" if around.text.count(HOLE) > 1 else ""
    return Setting(kind, f"{around.text}{which}", repr(node.value), node.lineno)
