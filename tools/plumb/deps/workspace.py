"""One workspace as the check sees it: the target graph beside the files that git knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.plumb import graph
from tools.plumb.deps.packages import Packages
from tools.plumb.deps.policy import Policy
from tools.plumb.graph import Graph, Target

_PYTHON_RULES = ("py_library", "py_binary", "py_test")
_FLAGS = ("label_flag", "label_setting")


@dataclass
class Workspace:
    """root: the folder that source files are read from. paths: files below it."""

    root: Path
    graph: Graph
    paths: frozenset[str]
    packages: Packages = field(default_factory=Packages)
    policy: Policy = field(default_factory=Policy)

    def text(self, path: str) -> str:
        """The content of a file."""
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    @cached_property
    def python(self) -> dict[str, Target]:
        """The rules that run or hold Python, by label."""
        return {label: t for label, t in self.graph.targets.items() if is_python(t)}

    @cached_property
    def package_folders(self) -> set[str]:
        """Folders with a BUILD file."""
        names = ("BUILD", "BUILD.bazel")
        folders = (path.rpartition("/") for path in self.paths)
        return {folder for folder, _, name in folders if name in names}

    @cached_property
    def folders(self) -> set[str]:
        """Every folder with a file somewhere below it."""
        found: set[str] = set()
        for path in self.paths:
            folder = path.rpartition("/")[0]
            while folder and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return found

    def build_file(self, package: str) -> str | None:
        """Path of a package's BUILD file."""
        for name in ("BUILD.bazel", "BUILD"):
            path = f"{package}/{name}" if package else name
            if path in self.paths:
                return path
        return None

    def package_of(self, path: str) -> str:
        """The package that a file belongs to: the nearest folder with a BUILD file."""
        folder = path.rpartition("/")[0]
        while folder and folder not in self.package_folders:
            folder = folder.rpartition("/")[0]
        return folder

    def files(self, label: str) -> frozenset[str]:
        """Paths of the files that a label in srcs or data stands for, as far as the graph says."""
        found: set[str] = set()
        todo, seen = [label], set()
        while todo:
            here = todo.pop()
            if here in seen:
                continue
            seen.add(here)
            target = self.graph.targets.get(here)
            path = graph.source_path(here)
            if target is None or target.kind in (graph.SOURCE, graph.GENERATED):
                found |= {path} if path else set()
            elif target.rule_class in ("filegroup", "py_library", "sh_library"):
                todo += labels(target, "srcs") + labels(target, "data")
            elif target.rule_class == "alias":
                todo += labels(target, "actual")
            else:
                todo += [t.label for t in self._made_by(here)]
        return frozenset(found)

    def matching(self, pattern: str) -> frozenset[str]:
        """Paths that a pattern stands for: `*` within a folder, `**/` across folders."""
        parts = re.split(r"(\*\*/|\*)", pattern)
        words = {"**/": "(?:.*/)?", "*": "[^/]*"}
        compiled = re.compile("".join(words.get(part, re.escape(part)) for part in parts))
        return frozenset(path for path in self.paths if compiled.fullmatch(path))

    def _made_by(self, label: str) -> list[Target]:
        return self._outputs.get(label, [])

    @cached_property
    def _outputs(self) -> dict[str, list[Target]]:
        found: dict[str, list[Target]] = {}
        for target in self.graph.targets.values():
            if target.kind == graph.GENERATED:
                found.setdefault(target.deps[0], []).append(target)
        return found


def is_python(target: Target) -> bool:
    """True for a rule that holds Python sources or runs them, a workspace's own rules too."""
    if target.kind != graph.RULE or "deps" not in target.attributes:
        return False
    own = any(label.endswith(".py") for label in labels(target, "srcs"))
    return target.rule_class in _PYTHON_RULES or own


def is_runnable(target: Target) -> bool:
    """True for a test or a binary."""
    return target.rule_class.endswith(("_test", "_binary"))


def labels(target: Target, attribute: str) -> list[str]:
    """Labels of an attribute in canonical form, each branch of each select() among them."""
    value = target.attributes.get(attribute)
    return list(dict.fromkeys(graph.canonical(label) for label in _flat(value)))


def branches(target: Target, attribute: str) -> Iterator[tuple[str, str]]:
    """(condition, label) for each label in a select() branch of an attribute."""
    value = target.attributes.get(attribute)
    for element in value.get("elements", ()) if isinstance(value, Mapping) else ():
        if len(element.get("entries", ())) > 1:
            for entry in element["entries"]:
                for label in _flat(entry.get("stringListValue")):
                    yield graph.canonical(entry["label"]), graph.canonical(label)


def forwards(target: Target) -> list[str] | None:
    """What a target without sources stands for, or None if it stands for itself."""
    if target.rule_class == "alias":
        return labels(target, "actual")
    if target.rule_class in _FLAGS:
        return labels(target, "build_setting_default")
    if is_python(target) and not labels(target, "srcs"):
        return labels(target, "deps")
    return None


def _flat(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))
    elif isinstance(value, Mapping):
        for element in value.get("elements", ()):
            for entry in element.get("entries", ()):
                yield from entry.get("stringListValue", ())
                if "stringValue" in entry:
                    yield entry["stringValue"]
