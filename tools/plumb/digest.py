"""Digests of targets by value: what can change a target's result, and nothing else.

Counted: rule class and implementation, attributes by value (spelled out or default alike),
content of sources, package() settings, and all of this of the deps, every select() branch.
Not counted: visibility, where and by which macro a rule was declared, and tags that only our
own tools read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.pip.lock import normalise
from tools.plumb import back_references, graph, wheel_lock
from tools.plumb.files import FileTable
from tools.plumb.graph import Graph, Target
from tools.plumb.inputs import SteeringInputs

UNCOUNTED_ATTRIBUTES = frozenset(
    {
        "name",
        "visibility",
        "deprecation",
        "generator_name",
        "generator_function",
        "generator_location",
        "testonly",
        "distribs",
        "licenses",
    }
)
UNCOUNTED_TAGS = ("covers:", "seconds:", "suite:", "cadence:")
# Names a part of a source that two revisions never share.
OUTSIDE = "behind a link that leaves the workspace"
# A genquery's output is the graph itself, with what is not counted elsewhere.
_GRAPH_READERS = ("genquery",)


@dataclass
class Digests:
    """Digests of one revision's targets, computed on demand.

    own: of what a target is by itself. whole: with its deps, so what two revisions compare.
    packages: package name to its package() settings, for those that differ between the two.
    side: what this revision is to the other, such as 'head'.
    """

    graph: Graph
    files: FileTable
    steering: SteeringInputs
    packages: Mapping[str, str] = field(default_factory=dict)
    side: str = ""
    _own: dict[str, str] = field(default_factory=dict, repr=False)
    _whole: dict[str, str] = field(default_factory=dict, repr=False)
    _locks: dict[str, wheel_lock.Lock] = field(default_factory=dict, repr=False)
    _closures: dict[str, str] = field(default_factory=dict, repr=False)
    _everything: str = field(default="", repr=False)

    def parts(self, label: str) -> dict[str, Any]:
        """What `label` is by itself, name to value: attributes, or a source's content."""
        target = self.graph.targets.get(label)
        if label.startswith("@"):
            return self._external(label)
        if target is None or target.kind == graph.SOURCE:
            return self._source(graph.source_path(label) or "")
        if target.kind != graph.RULE:
            return {}
        parts: dict[str, Any] = {"rule class": target.rule_class}
        parts |= {
            name: value
            for name, value in target.attributes.items()
            if name not in UNCOUNTED_ATTRIBUTES
        }
        parts["tags"] = counted_tags(target)
        settings = self.packages.get(label.partition(":")[0].removeprefix("//"))
        if settings:
            parts["package() settings"] = settings
        if target.rule_class in _GRAPH_READERS:
            parts["target graph"] = self._whole_graph()
        return parts

    def _source(self, path: str) -> dict[str, str]:
        outside = self.files.outside(path)
        # No tree holds that content: it may have changed with nothing to show for it.
        unknown = {OUTSIDE: f"{outside} at the {self.side}"} if outside is not None else {}
        return {"content": self.files.identity(path)} | unknown

    def own(self, label: str) -> str:
        """Digest of `parts(label)`."""
        if label not in self._own:
            self._own[label] = _hash([label, self.parts(label)])
        return self._own[label]

    def whole(self, label: str) -> str:
        """Digest of `label` with everything that it depends on."""
        open_labels: set[str] = set()
        todo = [label]
        while todo:
            here = todo[-1]
            if here in self._whole:
                todo.pop()
                continue
            waiting = [
                dep
                for dep in self.deps(here)
                if dep not in self._whole and dep not in open_labels and dep != here
            ]
            if waiting and here not in open_labels:
                open_labels.add(here)
                todo.extend(waiting)
                continue
            todo.pop()
            open_labels.discard(here)
            # Only a cycle, which Bazel refuses to build, leaves a dep without a digest here.
            deps = [(dep, self._whole.get(dep, "cycle")) for dep in self.deps(here)]
            self._whole[here] = _hash([self.own(here), deps])
        return self._whole[label]

    def deps(self, label: str) -> tuple[str, ...]:
        """What `label` depends on directly; a flag also on what .bazelrc sets it to."""
        target = self.graph.targets.get(label)
        deps = target.deps if target is not None else ()
        values = self.steering.flags.get(label)
        return tuple(sorted({*deps, *values})) if values else deps

    def knows(self, label: str) -> bool:
        """True if the label is a target here; leaves outside the graph are always known."""
        return label in self.graph.targets or label.startswith("@")

    def _external(self, label: str) -> dict[str, str]:
        """What a label outside the main repository is.

        A wheel is its part of the lock. Others are as WORKSPACE and what it loads make them,
        which the steering inputs hold, and may depend on what their definition refers back to.
        """
        wheel = self._wheel(label)
        if wheel is not None:
            return wheel
        return {
            f"{root}, to which it refers back": self._closure(root)
            for root in sorted(self._back(label))
        }

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
                    found[label] = wheel
                else:
                    below = set(self.deps(label))
                    found[label] = self.own(label)
                todo |= below - found.keys()
            self._closures[root] = _hash(found)
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

    def _whole_graph(self) -> str:
        if not self._everything:
            rows = [
                [t.label, t.kind, t.rule_class, t.attributes, t.deps]
                for _, t in sorted(self.graph.targets.items())
            ]
            self._everything = _hash(rows)
        return self._everything


def counted_tags(target: Target) -> list[str]:
    """The target's tags that count, sorted."""
    return sorted(tag for tag in target.tags if not tag.startswith(UNCOUNTED_TAGS))


def _hash(value: Any) -> str:
    data = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode(errors="surrogateescape")).hexdigest()
