"""Files that a Python file reads beside itself, where the path is written in literals.

Understood are `Path(__file__).parent / "x"` and what is written like it, through names and
attributes of `self` that hold such a path, `os.path`, `importlib.resources.files("pkg")`,
`Rlocation("pkg/x")`, `.glob("*.x")`, and in `Path` and `open` a path from the workspace's root.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tools.plumb.starlark import syntax

_SAME = frozenset({"resolve", "absolute", "expanduser", "as_posix", "__str__"})
_SAME_OS = frozenset({"abspath", "realpath", "normpath", "str", "fspath"})
# Without one of these, a file names no path that is understood here.
_READS = re.compile(r"__file__|\b(?:Path|open|files|[Rr]location)\(")
_Scope = Mapping[str, str | None]


@dataclass(frozen=True)
class Read:
    """A path that the file names. line: where; path: from the workspace's root.

    A path with a `*` stands for the files that match.
    """

    line: int
    path: str


@lru_cache(maxsize=4096)
def read(source: str, path: str) -> tuple[Read, ...]:
    """Paths that the file at `path` names in literals; they need not exist.

    Raises SyntaxError if Python cannot parse `source`.
    """
    if not _READS.search(source):
        return ()
    tree = syntax.parse(source)
    finder = _Finder(path)
    with syntax.visiting():
        finder.enter(tree.body, {**_attributes(tree, finder)})
    return tuple(sorted(set(finder.found), key=lambda found: (found.line, found.path)))


class _Finder:
    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[Read] = []

    def enter(self, body: list[ast.stmt], outer: _Scope) -> None:
        """Reads one scope: first the names that hold paths, then each expression."""
        scope: dict[str, str | None] = dict(outer)
        assigned: set[str] = set()
        for name, value in _assignments(body):
            found = self.evaluate(value, scope)
            # A name with two meanings has none here.
            scope[name] = found if name not in assigned or scope.get(name) == found else None
            assigned.add(name)
        for statement in body:
            self._walk(statement, scope)

    def _walk(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for default in [*node.args.defaults, *node.args.kw_defaults, *node.decorator_list]:
                if default is not None:
                    self._walk(default, scope)
            self.enter(node.body, {**scope, **dict.fromkeys(_parameters(node.args))})
            return
        if isinstance(node, ast.expr):
            value = self.evaluate(node, scope)
            if value is not None:
                # The longest expression that is a path; its parts are none of their own.
                self.found.append(Read(node.lineno, value))
                return
        for child in ast.iter_child_nodes(node):
            self._walk(child, scope)

    def evaluate(self, node: ast.expr | None, scope: _Scope) -> str | None:
        """The path that an expression stands for, or None."""
        if isinstance(node, ast.Name):
            return self.path if node.id == "__file__" else scope.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        if isinstance(node, ast.Subscript):
            return self._ancestor(node, scope)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return _join(self.evaluate(node.left, scope), [node.right])
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        return None

    def _attribute(self, node: ast.Attribute, scope: _Scope) -> str | None:
        if node.attr == "parent":
            return _parent(self.evaluate(node.value, scope))
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            return scope.get(f"self.{node.attr}")
        return None

    def _ancestor(self, node: ast.Subscript, scope: _Scope) -> str | None:
        # Path(__file__).parents[2]
        if not (isinstance(node.value, ast.Attribute) and node.value.attr == "parents"):
            return None
        if not (isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)):
            return None
        found = self.evaluate(node.value.value, scope)
        for _ in range(node.slice.value + 1):
            found = _parent(found)
        return found

    def _call(self, node: ast.Call, scope: _Scope) -> str | None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        first = node.args[0] if node.args else None
        method = None
        if isinstance(node.func, ast.Attribute):
            method = self.evaluate(node.func.value, scope)
        if method is not None:
            if name in _SAME:
                return method
            if name == "joinpath":
                return _join(method, node.args)
            if name in ("glob", "rglob"):
                return _join(f"{method}/**" if name == "rglob" else method, node.args)
            return _join(_parent(method), node.args) if name == "with_name" else None
        if name == "Path" or name in _SAME_OS:
            return self.evaluate(first, scope) or _from_root(first)
        if name in ("open", "Rlocation", "rlocation"):
            return _from_root(first)
        if name == "dirname":
            return _parent(self.evaluate(first, scope))
        if name == "join":
            return _join(self.evaluate(first, scope), node.args[1:])
        if name == "files" and isinstance(first, ast.Constant) and isinstance(first.value, str):
            return first.value.replace(".", "/")
        return None


def _from_root(node: ast.expr | None) -> str | None:
    text = node.value if isinstance(node, ast.Constant) else None
    # A bare name is more often a file of the test's own folder.
    return text if isinstance(text, str) and "/" in text.strip("/") and text[0] != "/" else None


def _parent(path: str | None) -> str | None:
    return posixpath.dirname(path) if path else None


def _join(path: str | None, parts: list[ast.expr]) -> str | None:
    if path is None:
        return None
    for part in parts:
        if not (isinstance(part, ast.Constant) and isinstance(part.value, str)):
            return None
        path = posixpath.join(path, part.value)
    joined = posixpath.normpath(path) if path else ""
    return None if joined.startswith(("..", "/")) else joined


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    for group in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs):
        yield from (argument.arg for argument in group)
    yield from (extra.arg for extra in (arguments.vararg, arguments.kwarg) if extra is not None)


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if isinstance(target, ast.Name):
                    yield target.id, node.value


def _attributes(tree: ast.Module, finder: _Finder) -> dict[str, str | None]:
    scope: dict[str, str | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            target = node.targets[0]
            if isinstance(target.value, ast.Name) and target.value.id == "self":
                name, found = f"self.{target.attr}", finder.evaluate(node.value, {})
                scope[name] = found if scope.get(name, found) == found else None
    return scope
