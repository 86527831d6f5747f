"""The servers that a test starts: model and flags, as far as the source says them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tools.plumb.trim.source.settings import flags_of
from tools.plumb.trim.source.syntax import is_flags, last_name

# What starts a server or an engine is called so in the field's test suites.
_LAUNCHERS = re.compile(r"launch|start_server|popen|engine$", re.IGNORECASE)
_SAME_SUBJECT = re.compile(r"^--(?:no-|enable-|disable-)?")
Names = Mapping[str, ast.expr]


@dataclass(frozen=True)
class Launch:
    """One start of a server.

    launcher: the function called. model: as the source names it. flags: flag to value, "" for a
    flag that takes none; constant keywords of the call count as flags without dashes.
    """

    launcher: str
    model: str
    flags: Mapping[str, str]
    line: int


@dataclass(frozen=True)
class Union:
    """Two launches as one server: only_one, only_other: what each adds; common: what both have."""

    common: Mapping[str, str]
    only_one: Mapping[str, str]
    only_other: Mapping[str, str]

    @property
    def one_sided(self) -> bool:
        """True if only one adds flags: the other's runs are those with the flags' defaults."""
        return bool(self.only_one) is not bool(self.only_other)


def launches(tree: ast.Module) -> list[Launch]:
    """Every server that the tree starts, in the order of the source."""
    return list(_in(tree, _assigned(tree.body)))


def union(one: Launch, other: Launch) -> Union | None:
    """The one server that does for both; None if the launches contradict each other.

    They must start the same model by the same function, and no flag may stand in both with
    different values, nor may one switch off what the other sets.
    """
    if (one.launcher, one.model) != (other.launcher, other.model):
        return None
    shared = one.flags.keys() & other.flags.keys()
    if any(one.flags[name] != other.flags[name] for name in shared):
        return None
    only_one = {name: value for name, value in one.flags.items() if name not in shared}
    only_other = {name: value for name, value in other.flags.items() if name not in shared}
    if _subjects(only_one) & _subjects(only_other):
        return None
    return Union({name: one.flags[name] for name in shared}, only_one, only_other)


def conflicts(one: Launch, other: Launch) -> list[str]:
    """Why `union` gives None, a clause each."""
    found = []
    if one.launcher != other.launcher:
        found.append(f"started by {one.launcher} and by {other.launcher}")
    if one.model != other.model:
        found.append(f"model {one.model} and {other.model}")
    for name in sorted(one.flags.keys() & other.flags.keys()):
        if one.flags[name] != other.flags[name]:
            found.append(f"{name} {one.flags[name] or '(set)'} and {other.flags[name] or '(set)'}")
    names = [flags.keys() - shared.keys() for flags, shared in _pair(one, other)]
    for subject in sorted(_subjects(names[0]) & _subjects(names[1])):
        found.append(f"both say something of {subject}")
    return found


def _pair(one: Launch, other: Launch) -> list[tuple[Mapping[str, str], Mapping[str, str]]]:
    return [(one.flags, other.flags), (other.flags, one.flags)]


def _subjects(names: object) -> set[str]:
    assert isinstance(names, Mapping | set | frozenset) or hasattr(names, "__iter__")
    return {_SAME_SUBJECT.sub("", name) for name in names}


def _assigned(body: list[ast.stmt]) -> dict[str, ast.expr]:
    """Names that the statements set once to an expression."""
    found: dict[str, ast.expr] = {}
    for statement in body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if name := last_name(target):
                    found[name] = statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            found[last_name(statement.target)] = statement.value
    return found


def _in(node: ast.AST, names: Names) -> Iterator[Launch]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.With):
        names = {**names, **_assigned(node.body)}
        if isinstance(node, ast.ClassDef):
            # `self.model` of one method may be set by setUpClass.
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name.lower().startswith("setup"):
                    names = {**names, **_assigned(part.body)}
    if isinstance(node, ast.Call) and _LAUNCHERS.search(last_name(node)):
        yield _launch(node, names)
        return
    for child in ast.iter_child_nodes(node):
        yield from _in(child, names)


def _launch(call: ast.Call, names: Names) -> Launch:
    flags: dict[str, str] = {}
    positional = [_resolve(argument, names) for argument in call.args]
    model = ""
    for argument in positional:
        if _is_arguments(argument):
            flags |= _flags(argument, names)
        elif not model:
            model = _text(argument)
    for keyword in call.keywords:
        value = _resolve(keyword.value, names)
        if _is_arguments(value):
            flags |= _flags(value, names)
        elif keyword.arg in ("model", "model_path"):
            model = _text(value)
        elif keyword.arg:
            flags[keyword.arg] = _text(value)
    return Launch(last_name(call), model, flags, call.lineno)


def _flags(node: ast.expr, names: Names) -> dict[str, str]:
    elements = [_resolve(element, names) for element in _elements(node, names)]
    return {name: value for name, value, _ in flags_of(elements)}


def _elements(node: ast.expr, names: Names) -> list[ast.expr]:
    """The elements of a list that may be a sum of lists or unpack others."""
    node = _resolve(node, names)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_elements(node.left, names), *_elements(node.right, names)]
    if isinstance(node, ast.List | ast.Tuple):
        found: list[ast.expr] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                found += _elements(element.value, names)
            else:
                found.append(element)
        return found
    return [node]


def _is_arguments(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_arguments(node.left) or _is_arguments(node.right)
    return is_flags(node)


def _resolve(node: ast.expr, names: Names) -> ast.expr:
    """What a name stands for, where the source says it."""
    for _ in range(8):
        name = ""
        if isinstance(node, ast.Name):
            name = node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.attr if node.value.id in ("self", "cls") else ""
        if name not in names or names[name] is node:
            return node
        node = names[name]
    return node


def _text(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)
