"""The shape of a test: its source with every literal, flag and class name taken out."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property

from tools.plumb.trim.source.settings import Holes, Setting, settings


@dataclass(frozen=True)
class Shape:
    """A source in normal form. bare: its lines without literals, as they are compared."""

    path: str
    bare: tuple[str, ...]
    tree: ast.Module = field(repr=False, compare=False)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Its lines with literals, as they are shown."""
        return tuple(_lines(self.tree))

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """What it sets."""
        return tuple(settings(self.tree))

    @property
    def names(self) -> int:
        """Number of lines without literals."""
        return len(self.bare)


def shape(tree: ast.Module, path: str) -> Shape:
    """The shape of a tree that `syntax.parse` made."""
    bare = _Bare(tree).visit(copy.deepcopy(tree))
    return Shape(path, tuple(_lines(bare)), tree)


def likeness(one: Shape, other: Shape) -> float:
    """Share of the lines without literals that stand in both, in order: 1 for twins."""
    return SequenceMatcher(None, one.bare, other.bare, autojunk=False).ratio()


def differing_lines(one: Shape, other: Shape) -> list[str]:
    """The lines that differ, literals and all: `- ` of the first, `+ ` of the second."""
    rows = []
    matcher = SequenceMatcher(None, one.lines, other.lines, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            rows += [f"- {line.strip()}" for line in one.lines[a:b]]
            rows += [f"+ {line.strip()}" for line in other.lines[c:d]]
    return rows


def _lines(tree: ast.AST) -> list[str]:
    return [line for line in ast.unparse(tree).splitlines() if line.strip()]


class _Bare(Holes):
    """Takes literals, flags, constant keywords and the names of the file's own classes out."""

    def __init__(self, tree: ast.Module) -> None:
        classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        self._classes = {name: f"Class{number}" for number, name in enumerate(classes)}

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._classes[node.name]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._classes.get(node.id, node.id)
        return node
