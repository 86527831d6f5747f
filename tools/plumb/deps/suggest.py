"""The label to add for a module or a file, or why nobody but a reader can choose it."""

from __future__ import annotations

from functools import cached_property

from tools.plumb import graph
from tools.plumb.deps.resolve import Resolver, Token
from tools.plumb.deps.workspace import Workspace, branches, is_runnable, labels
from tools.plumb.graph import Target


class Suggestions:
    """Answers for one workspace."""

    def __init__(self, workspace: Workspace, resolver: Resolver) -> None:
        self.workspace = workspace
        self.resolver = resolver

    def dep(self, tokens: frozenset[Token], target: Target) -> tuple[str, str]:
        """(label, why it cannot be added without a thought) for a module."""
        packages = sorted(t.removeprefix("package ") for t in tokens if t.startswith("package "))
        if packages:
            return self._package(packages, target)
        providers = self.resolver.providers
        found = {label for path in tokens for label in providers.get(path, [])}
        choices = sorted(found - {target.label})
        targets = self.workspace.graph.targets
        libraries = [label for label in choices if not is_runnable(targets[label])]
        choices = libraries or choices
        if not choices:
            return "", "no target that could be a dep provides it; declare a py_library"
        if len(choices) > 1:
            return "", f"several targets provide it; choose one of {', '.join(choices)}"
        return choices[0], self._objection(choices[0], target)

    def data(self, path: str, target: Target) -> tuple[str, str]:
        """(label, why it cannot be added without a thought) for a data file."""
        package = self.workspace.package_of(path)
        name = path[len(package) + 1 :] if package else path
        label = f"//{package}:{name}"
        if package == target.label[2:].partition(":")[0]:
            return label, ""
        source = self.workspace.graph.targets.get(label)
        if source is None or not _is_visible(source, target):
            return label, f'add exports_files(["{name}"]) to //{package} first'
        return label, ""

    def users(self, label: str) -> list[Target]:
        """The tests and binaries that depend on a target, directly or not."""
        found, todo, seen = [], [label], set()
        while todo:
            here = todo.pop()
            for user in self._users.get(here, ()):
                if user not in seen:
                    seen.add(user)
                    todo.append(user)
                    target = self.workspace.graph.targets[user]
                    if is_runnable(target):
                        found.append(target)
        return found

    def _package(self, names: list[str], target: Target) -> tuple[str, str]:
        known = self.workspace.graph.targets.keys() | self._deps
        found = [label for name in names if (label := self.workspace.packages.label(name, known))]
        if not found:
            return "", (
                f"no label stands for the package {names[0]}; add it to the requirements and lock"
            )
        if len(found) > 1:
            return "", f"several packages provide it; choose one of {', '.join(found)}"
        return found[0], self._guard(found[0], target)

    def _objection(self, label: str, target: Target) -> str:
        provider = self.workspace.graph.targets[label]
        if self.resolver.reaches(label, target.label):
            return (
                f"{label} depends on {target.label}: that would be a circle; move what they share"
            )
        if provider.attributes.get("testonly") is True and not (
            target.attributes.get("testonly") is True or target.is_test
        ):
            return f"{label} is testonly and {target.label} is not; move what they share"
        if not _is_visible(provider, target):
            return f"{label} is not visible from there; widen its visibility first"
        return self._guard(label, target)

    def _guard(self, label: str, target: Target) -> str:
        """Why `label`, which a plain build leaves out so far, should not come into each one."""
        holders, conditions = self._holders.get(label, ([], set()))
        if _is_apart(target) or not (holders or conditions) or not all(map(_is_apart, holders)):
            return ""
        if conditions:
            under = " or ".join(sorted(conditions))
            return f"elsewhere a plain build leaves it out; add it to a select() under {under}"
        return "so far only targets tagged manual or gpu have it; add it to a branch of a select()"

    @cached_property
    def _deps(self) -> set[str]:
        return {dep for target in self.workspace.python.values() for dep in labels(target, "deps")}

    @cached_property
    def _users(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for label, target in self.workspace.python.items():
            for dep in target.deps:
                found.setdefault(dep, []).append(label)
        return found

    @cached_property
    def _holders(self) -> dict[str, tuple[list[Target], set[str]]]:
        """For each dep, the targets that have it always, and the conditions of the others."""
        found: dict[str, tuple[list[Target], set[str]]] = {}
        for target in self.workspace.python.values():
            conditional = set(branches(target, "deps"))
            for condition, label in conditional:
                found.setdefault(label, ([], set()))[1].add(condition)
            for label in set(labels(target, "deps")) - {label for _, label in conditional}:
                found.setdefault(label, ([], set()))[0].append(target)
        return found


def _is_apart(target: Target) -> bool:
    return target.is_manual or "gpu" in target.tags


def _is_visible(provider: Target, target: Target) -> bool:
    package = target.label.partition(":")[0]
    if provider.label.partition(":")[0] == package:
        return True
    value = provider.attributes.get("visibility")
    for entry in map(graph.canonical, value if isinstance(value, list) else []):
        where, _, kind = entry.partition(":")
        if entry == "//visibility:public":
            return True
        if kind == "__pkg__" and where == package:
            return True
        if kind == "__subpackages__" and f"{package}/".startswith(f"{where.rstrip('/')}/"):
            return True
        # A package group: Bazel says at the next load.
        if where != "//visibility" and kind not in ("__pkg__", "__subpackages__"):
            return True
    return False
