"""What the implementation of a Starlark rule consists of: the definitions that it can reach.

Bazel's own hash of an implementation covers every file that is loaded on the way, with comments
and helpers of others. Here it is the rule's definition and what that names, across load().
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from tools.plumb.starlark import source
from tools.plumb.trees.files import FileTable

_PLACE = re.compile(r"(?P<path>[^:]+):(?P<line>\d+):\d+: ")
# Attributes of every rule that few implementations look at.
_READ_RARELY = ("tags", "features")
# Repositories that come with Bazel, which its release identifies.
_BUILT_IN = ("@bazel_tools//", "@_builtins//", "@platforms//")


@dataclass(frozen=True)
class Slice:
    """digest: of all that was reached. reads: which of 'tags' and 'features' it names."""

    digest: str
    reads: frozenset[str]


@dataclass
class Slices:
    """Slices of the rules that a tree's own .bzl files define.

    own_names: the main repository's names.
    """

    files: FileTable
    own_names: Collection[str] = ("",)
    _known: dict[str, Slice | None] = field(default_factory=dict, repr=False)
    _modules: dict[str, _File | None] = field(default_factory=dict, repr=False)

    def of(self, place: str) -> Slice | None:
        """The slice of what is defined at `place`, as in 'a/b.bzl:5:14: <toplevel>'.

        None if it is not all in this tree, or if a file cannot be read.
        """
        if place not in self._known:
            self._known[place] = self._reach(place)
        return self._known[place]

    def _reach(self, place: str) -> Slice | None:
        found = _PLACE.match(place)
        file = self._file(found["path"]) if found else None
        if found is None or file is None:
            return None
        try:
            parts = [*self._statements(found["path"], file.names_at(int(found["line"])))]
        except _LeavesTreeError:
            return None
        text = "\n".join(sorted(parts))
        reads = (name for name in _READ_RARELY if f"'{name}'" in text)
        return Slice(source.digest(text), frozenset(reads))

    def _statements(self, path: str, names: set[str]) -> Iterator[str]:
        todo = [(path, name) for name in names]
        seen: set[tuple[str, str]] = set()
        while todo:
            here, name = todo.pop()
            if (here, name) in seen:
                continue
            seen.add((here, name))
            file = self._file(here)
            if file is None:
                raise _LeavesTreeError
            if name in file.loads:
                label, original = file.loads[name]
                if label.lstrip("@").startswith(tuple(b.lstrip("@") for b in _BUILT_IN)):
                    yield f"{label} {original}"
                    continue
                todo.append((self._path(label, here), original))
                continue
            for text, used in file.definitions(name):
                yield f"{here} {text}"
                todo += [(here, one) for one in used]

    def _path(self, label: str, here: str) -> str:
        repository, slashes, rest = label.partition("//")
        if not slashes:
            return posixpath.join(posixpath.dirname(here), label.removeprefix(":"))
        if repository.lstrip("@") not in self.own_names:
            raise _LeavesTreeError
        package, _, name = rest.partition(":")
        return posixpath.join(package, name or posixpath.basename(package))

    def _file(self, path: str) -> _File | None:
        if path not in self._modules:
            text = self.files.text(path)
            module = source.parse(text) if text is not None else None
            self._modules[path] = _File(module) if module is not None else None
        return self._modules[path]


class _LeavesTreeError(Exception):
    """Something is defined in another repository, or nowhere."""


class _File:
    """The top level of a .bzl file."""

    def __init__(self, module: ast.Module) -> None:
        self.loads: dict[str, tuple[str, str]] = {}
        self._body = module.body
        self._by_name: dict[str, list[ast.stmt]] = {}
        self._others: list[ast.stmt] = []
        for statement in module.body:
            if _is_load(statement):
                self._load(statement.value)  # type: ignore[attr-defined]
            elif names := _defined(statement):
                for name in names:
                    self._by_name.setdefault(name, []).append(statement)
            else:
                self._others.append(statement)

    def names_at(self, line: int) -> set[str]:
        """What the top-level statement at `line` defines."""
        for statement in self._body:
            if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
                return _defined(statement) or _used(statement)
        return set()

    def definitions(self, name: str) -> Iterator[tuple[str, set[str]]]:
        """Each statement that makes or may change `name`, and the names that it uses."""
        for statement in self._by_name.get(name, ()):
            yield ast.dump(statement), _used(statement)
        for statement in self._others:
            if name in (used := _used(statement)):
                yield ast.dump(statement), used

    def _load(self, call: ast.Call) -> None:
        strings = [a.value for a in call.args if isinstance(a, ast.Constant)]
        label, names = str(strings[0]) if strings else "", strings[1:]
        self.loads |= {str(name): (label, str(name)) for name in names}
        self.loads |= {
            k.arg: (label, str(k.value.value))
            for k in call.keywords
            if k.arg and isinstance(k.value, ast.Constant)
        }


def _is_load(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    function = statement.value.func
    return isinstance(function, ast.Name) and function.id == "load"


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        found = set()
        for target in statement.targets:
            for node in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                if not isinstance(node, ast.Name):
                    return set()
                found.add(node.id)
        return found
    return set()


def _used(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
