"""Python sources as syntax trees in a normal form: what does not change a test is taken away."""

from __future__ import annotations

import ast

from tools.plumb.errors import PlumbError
from tools.plumb.starlark import syntax

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def parse(text: str, path: str) -> ast.Module:
    """The syntax tree of `text`, without docstrings and with the keywords of calls sorted.

    Comments, layout and quotes are gone with the text. Raises PlumbError naming path and line.
    """
    try:
        tree = syntax.parse(text)
    except SyntaxError as error:
        raise PlumbError(
            f"{path}, line {error.lineno}: no Python that this interpreter reads "
            f"({error.args[0]}); mend the file, or leave its target out."
        ) from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | Definition):
            _drop_docstring(node)
        elif isinstance(node, ast.Call):
            node.keywords.sort(key=lambda keyword: (keyword.arg is None, keyword.arg or ""))
    return tree


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or an attribute; of a call, that of what is called; else ""."""
    if isinstance(node, ast.Call):
        return dotted(node.func)
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def last_name(node: ast.expr) -> str:
    """`c` of `a.b.c`."""
    return dotted(node).rpartition(".")[2]


def is_constant(node: ast.expr) -> bool:
    """True for a literal: a number, also a negative one, a text, or a display of such."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(is_constant(element) for element in node.elts)
    if isinstance(node, ast.Dict):
        keys = [key for key in node.keys if key is not None]
        return len(keys) == len(node.keys) and all(map(is_constant, [*keys, *node.values]))
    return isinstance(node, ast.Constant)


def is_flags(node: ast.expr) -> bool:
    """True for a list or tuple with at least one element such as `--tp-size`."""
    return isinstance(node, ast.List | ast.Tuple) and any(
        isinstance(e, ast.Constant) and isinstance(e.value, str) and e.value.startswith("--")
        for e in node.elts
    )


def _drop_docstring(node: ast.Module | Definition) -> None:
    first = node.body[0] if node.body else None
    text = first.value if isinstance(first, ast.Expr) else None
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        node.body = node.body[1:] or [ast.Pass()]
