"""Small made-up graphs and trees for the unit tests of the modules beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from tools.plumb.graph import GENERATED, RULE, SOURCE, Graph, Target
from tools.plumb.incremental.graphs import Known
from tools.plumb.incremental.manifest import of_tree
from tools.plumb.revision import Revision
from tools.plumb.steering.inputs import read
from tools.plumb.trees.files import SYMLINK, Entry, FileTable
from tools.plumb.trees.git import Tree


def files(texts: Mapping[str, str]) -> FileTable:
    """A tree of the texts: path to content. '*x' is executable, '->a' a link to a."""
    blobs: dict[str, bytes] = {}
    entries = {}
    for path, text in texts.items():
        mode = "100755" if text.startswith("*") else "100644"
        if text.startswith("->"):
            mode, text = SYMLINK, text[2:]
        content = text.encode()
        name = hashlib.sha1(content).hexdigest()
        blobs[name] = content
        entries[path] = Entry(mode, name)
    return FileTable(entries, lambda entry: blobs[entry.object_id])


def rule(
    label: str, kind: str = "py_library", deps: Iterable[str] = (), **attributes: Any
) -> Target:
    """A rule; its deps are also its attribute 'deps'."""
    wanted = tuple(deps)
    return Target(label, RULE, kind, {"deps": list(wanted), **attributes}, tuple(sorted(wanted)))


def py_test(label: str, deps: Iterable[str] = (), **attributes: Any) -> Target:
    """A py_test."""
    return rule(label, "py_test", deps, **attributes)


def source(label: str) -> Target:
    """A source file."""
    return Target(label, SOURCE, "", {}, ())


def generated(label: str, maker: str) -> Target:
    """A file that the rule `maker` makes."""
    return Target(label, GENERATED, "", {}, (maker,))


def graph(*targets: Target, release: str = "release 7.7.1") -> Graph:
    """A graph of the targets."""
    return Graph({target.label: target for target in targets}, release)


def revision(texts: Mapping[str, str], *targets: Target) -> Revision:
    """A revision of the texts, with a WORKSPACE, and the targets."""
    tree = files({"WORKSPACE": "", **texts})
    steering = read(tree)
    known = Known(graph(*targets), of_tree(tree, steering), "key", defaults=True)
    return Revision(Tree("0" * 40, "made up"), tree, steering, known, "key")
