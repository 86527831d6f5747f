"""The test cases that pytest or unittest would collect from a source, and what skips them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tools.plumb.trim.source.conditions import UNKNOWN, Machine, evaluate
from tools.plumb.trim.source.syntax import last_name

_FIXTURES = ("setUp", "setUpClass", "setup_method", "setup_class", "setUpModule", "setup_module")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Skip:
    """One way by which a case is skipped. condition: None if it is always. reason: as written."""

    condition: ast.expr | None
    reason: str
    line: int

    def holds(self, machine: Machine, names: Mapping[str, ast.expr]) -> bool:
        """True if the source alone says that it skips there."""
        if self.condition is None:
            return True
        value = evaluate(self.condition, machine, names)
        return value is not UNKNOWN and bool(value)

    @property
    def text(self) -> str:
        """The condition as it stands in the source, and the reason."""
        said = "always" if self.condition is None else f"if {ast.unparse(self.condition)}"
        return f"{said}: {self.reason}" if self.reason else said


@dataclass(frozen=True)
class Case:
    """A test function. name: with its class's, parted by a dot. klass: "" for none."""

    name: str
    klass: str
    line: int
    skips: tuple[Skip, ...]

    def skip_on(self, machine: Machine, names: Mapping[str, ast.expr]) -> Skip | None:
        """The first skip that holds there."""
        return next((skip for skip in self.skips if skip.holds(machine, names)), None)


@dataclass(frozen=True)
class Collected:
    """cases: those that run. names: what the module's names are set to.

    shadowed: (name, line) of tests that a later definition of the same name replaces.
    """

    cases: tuple[Case, ...]
    names: Mapping[str, ast.expr]
    shadowed: tuple[tuple[str, int], ...]


def collect(tree: ast.Module) -> Collected:
    """The cases of a source, in its order."""
    names = _names(tree)
    whole = _marks(names.get("pytestmark"))
    cases: dict[str, Case] = {}
    shadowed = []
    for case in _cases(tree.body, "", tuple(whole), _bases(tree)):
        if case.name in cases:
            shadowed.append((case.name, cases[case.name].line))
        cases[case.name] = case
    return Collected(tuple(cases.values()), names, tuple(shadowed))


def _names(tree: ast.Module) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _bases(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _cases(
    body: list[ast.stmt], klass: str, above: tuple[Skip, ...], classes: dict[str, ast.ClassDef]
) -> Iterator[Case]:
    fixtures = [s for node in body if _is_fixture(node) for s in _inside(node)]
    above = (*above, *fixtures)
    for node in body:
        if isinstance(node, Function) and node.name.startswith("test"):
            name = f"{klass}.{node.name}" if klass else node.name
            skips = (*above, *_decorated(node), *_inside(node))
            yield Case(name, klass, node.lineno, skips)
        elif isinstance(node, ast.ClassDef) and _is_test_class(node, classes):
            marks = [s for part in node.body if _sets_mark(part) for s in _mark_of(part)]
            skips = (*above, *_decorated(node), *marks)
            yield from _cases(_with_inherited(node, classes), node.name, skips, classes)


def _is_test_class(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    # unittest collects by base class, whatever the name; a mixin of this file is collected by use.
    unittests = any("TestCase" in last_name(base) for base in node.bases)
    inherited = any(
        _is_test_class(classes[last_name(base)], classes)
        for base in node.bases
        if last_name(base) in classes and classes[last_name(base)] is not node
    )
    return node.name.startswith("Test") or unittests or inherited


def _with_inherited(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.stmt]:
    own = {part.name for part in node.body if isinstance(part, Function)}
    inherited = [
        part
        for base in node.bases
        if last_name(base) in classes and classes[last_name(base)] is not node
        for part in _with_inherited(classes[last_name(base)], classes)
        if isinstance(part, Function) and part.name not in own
    ]
    return [*inherited, *node.body]


def _decorated(node: Function | ast.ClassDef) -> list[Skip]:
    return [skip for decorator in node.decorator_list for skip in _mark(decorator)]


def _marks(value: ast.expr | None) -> list[Skip]:
    if value is None:
        return []
    elements = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    return [skip for element in elements for skip in _mark(element)]


def _sets_mark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(last_name(t) == "pytestmark" for t in node.targets)


def _mark_of(node: ast.stmt) -> list[Skip]:
    return _marks(node.value) if isinstance(node, ast.Assign) else []


def _mark(node: ast.expr) -> list[Skip]:
    """The skip of a decorator or mark: unittest's or pytest's."""
    name = last_name(node).lower()
    arguments = list(node.args) if isinstance(node, ast.Call) else []
    keywords = {k.arg: k.value for k in node.keywords} if isinstance(node, ast.Call) else {}
    reason = keywords.get("reason")
    if name == "skip":
        return [Skip(None, _said(reason or next(iter(arguments), None)), node.lineno)]
    if name in ("skipif", "skipunless") and (arguments or "condition" in keywords):
        condition = arguments[0] if arguments else keywords["condition"]
        if name == "skipunless":
            condition = ast.UnaryOp(ast.Not(), condition)
        said = _said(reason or (arguments[1] if len(arguments) > 1 else None))
        return [Skip(condition, said, node.lineno)]
    return []


def _inside(node: ast.stmt) -> list[Skip]:
    """Skips at the top level of a function's body: always, or under an `if`."""
    found: list[Skip] = []
    for statement in node.body if isinstance(node, Function) else []:
        if isinstance(statement, ast.If):
            found += [
                Skip(statement.test, reason, statement.lineno)
                for inner in statement.body
                if (reason := _called_skip(inner)) is not None
            ]
        elif (reason := _called_skip(statement)) is not None:
            found.append(Skip(None, reason, statement.lineno))
    return found


def _called_skip(statement: ast.stmt) -> str | None:
    node: ast.expr | None = None
    if isinstance(statement, ast.Expr):
        node = statement.value
        if last_name(node) not in ("skip", "skipTest"):
            return None
    elif isinstance(statement, ast.Raise) and statement.exc is not None:
        node = statement.exc
        if last_name(node) != "SkipTest":
            return None
    if not isinstance(node, ast.Call):
        return None
    return _said(next(iter(node.args), None))


def _is_fixture(node: ast.stmt) -> bool:
    return isinstance(node, Function) and node.name in _FIXTURES


def _said(node: ast.expr | None) -> str:
    if node is None:
        return ""
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)
