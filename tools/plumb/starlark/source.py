"""Starlark files by meaning: comments and layout do not count.

Starlark's grammar is nearly all of it Python's. A file that Python cannot read counts as text.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from typing import Any

from tools.plumb.starlark import syntax


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> ast.Module | None:
    """The file's syntax tree, docstrings left out; None if Python cannot read it."""
    try:
        module = syntax.parse(text)
    except SyntaxError:
        return None
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return module


def meaning(text: str) -> str:
    """Digest of what `text` says."""
    module = parse(text)
    return digest(text if module is None else ast.dump(module))


def digest(text: str) -> str:
    """Digest of a text."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def hashed(value: Any) -> str:
    """Digest of a value that JSON can hold."""
    data = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode(errors="surrogateescape")).hexdigest()
