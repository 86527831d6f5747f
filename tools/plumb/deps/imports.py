"""What a Python file imports, read from its syntax tree: nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise

from tools.plumb.starlark import syntax

_MODULE = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
_MENTION = re.compile(r"^([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?::\w+)?$")
# Calls that import the module that their first argument names.
_LOADERS = frozenset({"import_module", "__import__", "importorskip", "run_module"})
_CHECKERS = frozenset({"typing.TYPE_CHECKING", "TYPE_CHECKING", "t.TYPE_CHECKING"})


class Need(Enum):
    """What an import asks of the deps.

    RUN: the module when the file runs. NAMED: the same, if the name is a known module at all, as
    after `-m` or `-p`. MENTION: nothing, but a dep that provides the module is of use.
    """

    RUN = "run"
    NAMED = "named"
    MENTION = "mention"


@dataclass(frozen=True)
class Import:
    """One module that a file imports.

    text: as one would write it. modules: what it can mean, the likeliest first: `from a import b`
    is the module a.b, or a name in the module a.
    """

    line: int
    text: str
    modules: tuple[str, ...]
    need: Need = Need.RUN


@dataclass(frozen=True)
class Dynamic:
    """A call that imports whatever its argument, no literal, holds when it runs."""

    line: int
    text: str


@dataclass(frozen=True)
class Imports:
    """Everything that one file imports, and the calls that nobody can read."""

    found: tuple[Import, ...]
    dynamic: tuple[Dynamic, ...]


@lru_cache(maxsize=4096)
def read(source: str, path: str) -> Imports:
    """The imports of the file at `path`, relative to the workspace, that holds `source`.

    Raises SyntaxError if Python cannot parse it.
    """
    reader = _Reader(_package(path))
    with syntax.visiting():
        reader.visit(syntax.parse(source))
    return Imports(tuple(reader.found), tuple(reader.dynamic))


def named_in_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Modules that a command line names after -m or -p, as in ["-p", "my.plugin"]."""
    for option, value in pairwise(arguments):
        if option in ("-m", "-p") and _MODULE.match(value):
            yield value


def _package(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")[:-1])


class _Reader(ast.NodeVisitor):
    def __init__(self, package: tuple[str, ...]) -> None:
        self.package = package
        self.found: list[Import] = []
        self.dynamic: list[Dynamic] = []
        self.need = Need.RUN

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node.lineno, f"import {alias.name}", [alias.name])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = self._absolute(node.module or "", node.level)
        if not module:
            return
        written = "." * node.level + (node.module or "")
        for alias in node.names:
            inside = [f"{module}.{alias.name}"] if alias.name != "*" else []
            self._add(node.lineno, f"from {written} import {alias.name}", [*inside, module])

    def visit_If(self, node: ast.If) -> None:
        test, negated = node.test, False
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, negated = test.operand, True
        if ast.unparse(test) not in _CHECKERS:
            self.generic_visit(node)
            return
        self._visit_all(node.body, self.need if negated else Need.MENTION)
        self._visit_all(node.orelse, Need.MENTION if negated else self.need)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func).rpartition(".")[2] if _is_name(node.func) else ""
        if called in _LOADERS and node.args:
            self._load(node)
        elif called in ("find_spec", "patch", "setattr") and node.args:
            self._mention(node.args[0])
        self._named([*node.args])
        self.generic_visit(node)

    def visit_List(self, node: ast.List) -> None:
        self._named(node.elts)
        self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        self._named(node.elts)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if "pytest_plugins" in names:
            elements = getattr(node.value, "elts", [node.value])
            for literal in elements:
                name = _literal(literal)
                if name is None:
                    self.dynamic.append(Dynamic(node.lineno, ast.unparse(node)[:80]))
                else:
                    self._add(literal.lineno, f'pytest_plugins = "{name}"', [name])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        self._mention(node)

    def _load(self, node: ast.Call) -> None:
        name = _literal(node.args[0])
        if name is None:
            self.dynamic.append(Dynamic(node.lineno, ast.unparse(node)[:80]))
            return
        level = len(name) - len(name.lstrip("."))
        module = self._absolute(name.lstrip("."), level)
        if module:
            self._add(node.lineno, ast.unparse(node)[:80], [module])

    def _named(self, elements: Sequence[ast.expr]) -> None:
        for option, value in pairwise(elements):
            name = _literal(value)
            if _literal(option) in ("-m", "-p") and name and _MODULE.match(name):
                text = f"{_literal(option)} {name}"
                self._add(value.lineno, text, [f"{name}.__main__", name], Need.NAMED)

    def _mention(self, node: ast.expr) -> None:
        matched = _MENTION.match(_literal(node) or "")
        if matched:
            parts = matched[1].split(".")
            modules = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
            self._add(node.lineno, f'"{matched[1]}"', modules, Need.MENTION)

    def _absolute(self, module: str, level: int) -> str | None:
        if not level:
            return module
        if level > len(self.package):
            return None
        parts = self.package[: len(self.package) - level + 1]
        return ".".join([*parts, *([module] if module else [])])

    def _add(self, line: int, text: str, modules: Sequence[str], need: Need | None = None) -> None:
        if self.need is Need.MENTION or need is None:
            need = self.need
        self.found.append(Import(line, text, tuple(modules), need))

    def _visit_all(self, nodes: Sequence[ast.stmt], need: Need) -> None:
        before, self.need = self.need, need
        for node in nodes:
            self.visit(node)
        self.need = before


def _is_name(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
