"""Loads the two revisions of a comparison, so that what they share is read once."""

from __future__ import annotations

from tools.plumb import bazel
from tools.plumb.errors import PlumbError
from tools.plumb.graph import GROUP
from tools.plumb.incremental import layered
from tools.plumb.revision import Loader, Revision
from tools.plumb.steering import inputs
from tools.plumb.trees.git import Tree


def load_both(
    loader: Loader, base: Tree, head: Tree, *, defaults: bool = False
) -> tuple[Revision | None, Revision, str]:
    """The base's and the head's revision, and why there is no base, if there is none.

    defaults: with attributes that nobody gave a value, which later questions with the same base
    then need not read. Else where they are missing, they are the same on both sides.
    Raises PlumbError if the head is no Bazel workspace or Bazel cannot load it.
    """
    if not inputs.is_workspace(loader.files(head)):
        raise PlumbError(f"{head.name} has no WORKSPACE or MODULE.bazel at its root.")
    older, why = _load_base(loader, base, defaults)
    if older is None:
        return None, loader.load(head, defaults=False), why
    older, newer = _load_head(loader, older, head)
    if older.graph.release != newer.graph.release:
        # One was cached under another Bazel, whose own rules differ.
        older = loader.load(base, fresh=True)
        newer = loader.load(head, fresh=True)
    return older, newer, why


def _load_base(loader: Loader, base: Tree, defaults: bool) -> tuple[Revision | None, str]:
    if not inputs.is_workspace(loader.files(base)):
        return None, f"{base.name} has no WORKSPACE or MODULE.bazel, so there is nothing to compare"
    try:
        return loader.load(base, defaults=defaults), ""
    except bazel.GraphError as error:
        return None, f"the target graph of {base.name} does not load: {error}"


def _load_head(loader: Loader, older: Revision, head: Tree) -> tuple[Revision, Revision]:
    packages = loader.apart(older, head)
    if packages is not None:
        # Before the checkout turns to the head.
        older = loader.with_defaults(older, packages)
        newer = loader.load(head, near=older)
        if newer.known.root == older.known.root:
            layers = [layered.split(side.graph.index)[1] for side in (older, newer)]
            packages = layered.differing(*layers)
            sides = [loader.with_defaults(side, packages) for side in (older, newer)]
            if older.known.defaults or not _groups_differ(*sides):
                return sides[0], sides[1]
        elif older.known.defaults and newer.known.defaults:
            return older, newer
    return older if older.known.defaults else loader.load(older.tree), loader.load(head)


def _groups_differ(older: Revision, newer: Revision) -> bool:
    """True if a package group differs: who names it may be the default of any package."""
    one, other = older.graph.targets, newer.graph.targets
    for label in layered.apart(older.graph.index, newer.graph.index) or ():
        before, after = one.get(label), other.get(label)
        kinds = {target.kind for target in (before, after) if target is not None}
        if GROUP in kinds and (before is None or after is None or not before.same_as(after)):
            return True
    return False
