"""The pools that a workspace declares, as testing/pools.bzl names them."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.starlark import syntax

PATH = Path("testing/pools.bzl")


def declared(workspace: Path) -> dict[str, str]:
    """Pool to its architecture, such as 'sm90', the CPU's pool first; none without the file.

    The file is data in Starlark, of which Python's parser reads the part used there.

    Raises PlumbError if it does not say POOLS = {"name": struct(arch = "…", …)}.
    """
    file = workspace / PATH
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PlumbError(f"cannot read {file}: {error.strerror}.", ExitCode.ENVIRONMENT) from error
    try:
        found = _pools(syntax.parse(text))
    except (SyntaxError, ValueError) as error:
        raise PlumbError(
            f'{file} cannot be read: {error}; wanted POOLS = {{"name": struct(arch = "sm90", …)}}.'
        ) from error
    return dict(sorted(found.items(), key=lambda item: (item[1] != "cpu", item[0])))


def _pools(module: ast.Module) -> dict[str, str]:
    for statement in module.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Dict):
            continue
        if any(isinstance(name, ast.Name) and name.id == "POOLS" for name in statement.targets):
            keys = [ast.literal_eval(key) for key in statement.value.keys if key is not None]
            return dict(zip(keys, map(_arch, statement.value.values), strict=True))
    raise ValueError("it assigns no dict to POOLS")


def _arch(value: ast.expr) -> str:
    for word in value.keywords if isinstance(value, ast.Call) else ():
        if word.arg == "arch":
            return str(ast.literal_eval(word.value))
    raise ValueError(f"line {value.lineno} holds no struct with an arch")
