"""A workspace of a few files whose BUILD files are run here, without Bazel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.plumb import graph
from tools.plumb.deps.build_files import absolute
from tools.plumb.deps.packages import Packages
from tools.plumb.deps.policy import Policy
from tools.plumb.deps.workspace import Workspace
from tools.plumb.graph import Graph, Target

_LABELS = ("srcs", "deps", "data", "actual")
# What a macro of the tree adds to each test, as //testing:defs.bzl does.
RUNNER = "//run:runner"
MAIN = "//run:main.py"


class _Package:
    def __init__(self, name: str, targets: dict[str, Target]) -> None:
        self.name, self.targets = name, targets

    def functions(self) -> dict[str, Callable[..., None]]:
        """What the BUILD file can call."""
        rules = ("py_library", "py_binary", "py_test", "filegroup", "alias", "genrule", "opaque")
        made: dict[str, Callable[..., Any]] = {rule: self._rule(rule) for rule in rules}
        made |= {"select": _Select, "load": lambda *_: None, "exports_files": self._export}
        return made | {"pool_test": self._macro}

    def _rule(self, rule: str) -> Callable[..., None]:
        return lambda name, **attributes: self._add(rule, name, name, attributes)

    def _macro(self, name: str, pools: list[str], srcs: list[str], **attributes: Any) -> None:
        given: Any = attributes.get("deps", [])
        runner = [RUNNER]
        # A list, or a select() that takes one.
        attributes["deps"] = given + runner
        attributes["srcs"] = [*srcs, MAIN]
        for pool in pools:
            self._add("py_test", f"{name}_{pool}", name, attributes, function="pool_test")

    def _export(self, names: list[str]) -> None:
        for name in names:
            self._source(f"//{self.name}:{name}", ["//visibility:public"])

    def _source(self, label: str, visibility: list[str]) -> None:
        target = Target(label, graph.SOURCE, "", {"visibility": visibility}, ())
        self.targets[label] = target

    def _add(
        self, rule: str, name: str, call: str, given: Mapping[str, Any], function: str = ""
    ) -> None:
        attributes: dict[str, Any] = {"visibility": ["//visibility:public"], "tags": [], **given}
        deps: set[str] = set()
        for key in _LABELS:
            value = _canonical(attributes.get(key), self.name)
            attributes[key] = value
            deps |= set(_flat(value))
        attributes |= {"generator_name": call, "generator_function": function or rule}
        label = f"//{self.name}:{name}"
        self.targets[label] = Target(label, graph.RULE, rule, attributes, tuple(sorted(deps)))
        for output in given.get("outs", ()):
            made = f"//{self.name}:{output}"
            self.targets[made] = Target(made, graph.GENERATED, "", {}, (label,))


class _Select:
    """Adds up to what `bazel query` prints for a select()."""

    def __init__(self, branches: Mapping[str, list[str]], before: list[str] | None = None) -> None:
        self.branches, self.before = branches, before or []

    def __radd__(self, before: list[str]) -> _Select:
        return _Select(self.branches, before)

    def __add__(self, after: list[str]) -> _Select:
        return _Select(self.branches, self.before + after)


def _canonical(value: Any, package: str) -> Any:
    if isinstance(value, _Select):
        elements = [
            {"entries": [_entry("//conditions:default", value.before, package)]},
            {"entries": [_entry(c, found, package) for c, found in value.branches.items()]},
        ]
        return {"elements": elements}
    if isinstance(value, str):
        return absolute(value, package)
    return [absolute(label, package) for label in value or []]


def _entry(condition: str, found: list[str], package: str) -> dict[str, Any]:
    listed = [absolute(label, package) for label in found]
    return {"label": condition, "stringListValue": listed}


def _flat(value: Any) -> list[str]:
    if isinstance(value, dict):
        entries = [entry for element in value["elements"] for entry in element["entries"]]
        return [label for entry in entries for label in entry["stringListValue"]]
    return [value] if isinstance(value, str) else value


def workspace(
    root: Path, files: Mapping[str, str], packages: Packages | None = None, **policy: Any
) -> Workspace:
    """Writes `files` below `root` and runs the BUILD files among them."""
    targets: dict[str, Target] = {}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        if path.rpartition("/")[2] in ("BUILD", "BUILD.bazel"):
            exec(text, _Package(path.rpartition("/")[0], targets).functions())
    third = packages or Packages(frozenset({"torch", "pyyaml", "pytest"}), ("pip",))
    return Workspace(root, Graph(targets, "x"), frozenset(files), third, Policy(**policy))
