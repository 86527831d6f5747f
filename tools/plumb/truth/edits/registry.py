"""The kinds of change that the benchmark makes, and what its edits share.

An edit takes the model and a source of chance.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tools.plumb.truth.model import Model, Package, Rule

Edit = Callable[[Model, Random], None]
# Name of a kind to its edit.
KINDS: dict[str, Edit] = {}
# Kinds for which plumb is asked to select what Bazel leaves alone: why.
DEMANDED: dict[str, str] = {}
# Kinds that the target graph cannot tell from others: who can.
BEYOND_THE_GRAPH: dict[str, str] = {}


def kind(name: str, *, demanded: str = "", beyond: str = "") -> Callable[[Edit], Edit]:
    """Registers an edit of the kind `name`. demanded, beyond: as above."""

    def register(edit: Edit) -> Edit:
        KINDS[name] = edit
        if demanded:
            DEMANDED[name] = demanded
        if beyond:
            BEYOND_THE_GRAPH[name] = beyond
        return edit

    return register


def any_package(model: Model, chance: Random) -> tuple[str, Package]:
    """The name of one of the packages that are always there, and the package."""
    names = (name for name in model.packages if name.startswith("p") and "/" not in name)
    name = chance.choice(sorted(names))
    return name, model.packages[name]


def any_test(model: Model, chance: Random) -> tuple[Package, str, Rule]:
    """A test that the macro makes: its package, its name and the rule."""
    _, package = any_package(model, chance)
    name = chance.choice(sorted(n for n, r in package.rules.items() if r.kind == "checked"))
    return package, name, package.rules[name]


def append(model: Model, path: str) -> None:
    """Adds a line to the file."""
    model.files[path] += f"# {model.new_name('edit ')}\n"
