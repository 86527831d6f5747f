"""What identifies targets of other repositories: wheels by the lock, others by their definition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.pip.lock import normalise
from tools.plumb.graph import Graph
from tools.plumb.starlark.source import hashed
from tools.plumb.steering import back_references, wheel_lock
from tools.plumb.steering.inputs import SteeringInputs
from tools.plumb.trees.files import FileTable


@dataclass
class Outside:
    """Labels that start with @, of one revision.

    own, deps: what a label of the main repository is by itself, and what it depends on.
    """

    graph: Graph
    files: FileTable
    steering: SteeringInputs
    options: Mapping[str, tuple[str, ...]]
    own: Callable[[str], str]
    deps: Callable[[str], Iterable[str]]
    _foreign: dict[str, str] | None = field(default=None, repr=False)
    _locks: dict[str, wheel_lock.Lock] = field(default_factory=dict, repr=False)
    _closures: dict[str, str] = field(default_factory=dict, repr=False)

    def parts(self, label: str) -> dict[str, str]:
        """What `label` is by itself, name to value.

        A wheel is its part of the lock. Others are as WORKSPACE and what it loads make them,
        which the steering inputs hold, and may depend on what their definition refers back to.
        """
        wheel = self._wheel(label)
        if wheel is not None:
            return wheel | self._others()
        return self._definition(label) | {
            f"{root}, to which it refers back": self._closure(root)
            for root in sorted(self._back(label))
        }

    def _definition(self, label: str) -> dict[str, str]:
        """How WORKSPACE defines the repository of `label`, with those that it may refer to."""
        repository = label[1:].partition("//")[0]
        definition = self.steering.repositories.get(repository)
        if definition is None or repository in self.steering.opaque:
            built_in = back_references.is_built_in(repository)
            own = {} if definition is None else {f"repository {repository}": definition}
            return own | ({} if built_in else self._others())
        return {f"repository {repository}": definition}

    def _others(self) -> dict[str, str]:
        """The definitions of repositories that any other may use."""
        if self._foreign is None:
            defined = self.steering.repositories
            named = {
                leaf[1:].partition("//")[0]
                for leaf in (self.graph.index.leaves if defined else ())
                if leaf.startswith("@")
            } | {
                value.lstrip("@").partition("//")[0]
                for values in (self.options.values() if defined else ())
                for value in values
            }
            self._foreign = {
                f"repository {name}": definition
                for name, definition in defined.items()
                if name in self.steering.opaque or name not in named
            }
        return self._foreign

    def _back(self, label: str) -> set[str]:
        repository = label[1:].partition("//")[0]
        return back_references.of(repository, self.steering.back)

    def _closure(self, root: str) -> str:
        """Digest of `root` and all below it. A set, since such references can make cycles."""
        if root not in self._closures:
            found: dict[str, Any] = {}
            todo = {root}
            while todo:
                label = todo.pop()
                if label.startswith("@"):
                    wheel = self._wheel(label)
                    below = self._back(label) if wheel is None else set()
                    found[label] = self._definition(label) if wheel is None else wheel
                else:
                    below = set(self.deps(label))
                    found[label] = self.own(label)
                todo |= below - found.keys()
            self._closures[root] = hashed(found)
        return self._closures[root]

    def _wheel(self, label: str) -> dict[str, str] | None:
        repository, _, rest = label[1:].partition("//")
        for hub in sorted(self.steering.locks, key=len, reverse=True):
            if repository == hub:
                wheel = rest.partition(":")[0]
                return self._lock(hub).parts(normalise(wheel) if wheel else None)
            if repository.startswith(f"{hub}_"):
                wheel = repository.removeprefix(f"{hub}_")
                return self._lock(hub).parts(normalise(wheel))
        return None

    def _lock(self, hub: str) -> wheel_lock.Lock:
        if hub not in self._locks:
            self._locks[hub] = wheel_lock.parse(self.files.text(self.steering.locks[hub]) or "")
        return self._locks[hub]
