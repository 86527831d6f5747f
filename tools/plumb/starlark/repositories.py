"""The repositories that a WORKSPACE file defines, apart from all else that it says."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tools.plumb.starlark import source

_NATIVE = ("local_repository", "new_local_repository")
_NOT_REPOSITORIES = ("workspace", "bind", "register_toolchains", "register_execution_platforms")
_MENTION = re.compile(r"@{1,2}([\w.~+-]+)(?://|$)")


@dataclass
class Repositories:
    """definitions: name to the statement that defines it.

    opaque: those of them whose content comes from elsewhere, and may refer to any other.
    rest: digest of every other statement, and of those that define what these name.
    """

    definitions: dict[str, ast.stmt] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    rest: str = ""


def read(text: str, named: Iterable[str] = (), whole: Collection[str] = ()) -> Repositories:
    """What `text`, a WORKSPACE file, defines.

    named: names of repositories that are used in ways that no target shows. whole: functions whose
    calls are not taken apart. A file that Python cannot read has no definitions, only a rest.
    """
    module = source.parse(text)
    if module is None:
        return Repositories(rest=source.digest(text))
    own_rules = _loaded_from_here(module)
    found = Repositories()
    rest: list[ast.stmt] = []
    before: list[str] = []
    for statement in module.body:
        function, name = _definition(statement)
        if not name or function in whole or name in found.definitions:
            rest.append(statement)
            if function not in (*_NOT_REPOSITORIES, "load"):
                # A macro may leave out a repository that is defined above it.
                before.append(f"{sorted(found.definitions)}")
            continue
        found.definitions[name] = statement
        if function not in _NATIVE and function not in own_rules:
            found.opaque.add(name)
    _join(found, rest, set(named))
    found.rest = source.digest("\n".join([*(ast.dump(one) for one in rest), *before]))
    return found


def _join(found: Repositories, rest: list[ast.stmt], named: set[str]) -> None:
    """Takes definitions that the rest names back into the rest."""
    for statement in rest:
        named |= _mentions(statement)
    while known := named & found.definitions.keys():
        for name in sorted(known):
            statement = found.definitions.pop(name)
            found.opaque.discard(name)
            rest.append(statement)
            named |= _mentions(statement)


def _definition(statement: ast.stmt) -> tuple[str, str]:
    """The function and the name of the repository; "" if the statement defines none."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return "", ""
    if call.func.id in _NOT_REPOSITORIES or call.func.id == "load":
        return call.func.id, ""
    for keyword in call.keywords:
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
            return call.func.id, str(keyword.value.value)
    return call.func.id, ""


def _loaded_from_here(module: ast.Module) -> set[str]:
    """Names that load() takes from the main repository."""
    found: set[str] = set()
    for node in module.body:
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "load" and call.args:
            label = getattr(call.args[0], "value", "")
            if isinstance(label, str) and label.startswith(("//", ":", "@//")):
                found |= {str(getattr(a, "value", "")) for a in call.args[1:]}
                found |= {keyword.arg for keyword in call.keywords if keyword.arg}
    return found


def _mentions(statement: ast.stmt) -> set[str]:
    strings = (node.value for node in ast.walk(statement) if isinstance(node, ast.Constant))
    return {name for text in strings if isinstance(text, str) for name in _MENTION.findall(text)}
