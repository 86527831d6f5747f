"""Which target provides a module: its name, as Bazel lets Python find it, to files and labels."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from tools.plumb.deps.workspace import Workspace, forwards, is_python, labels
from tools.plumb.graph import RULE, Target

# A file's path, or "package NAME" for a third-party one.
Token = str
# Rules whose outputs, if any, the graph lists.
_PLAIN = ("filegroup", "genrule")
_STANDARD = sys.stdlib_module_names | {"__main__"}


class Origin(Enum):
    """Where a module comes from."""

    TARGET = "a target"
    NO_TARGET = "a file that no target lists"
    STANDARD = "the standard library"
    FOLDER = "a folder, which Python takes for a package"
    PACKAGE = "a third-party package"
    UNKNOWN = "nowhere"


@dataclass(frozen=True)
class Found:
    """What a module is. tokens: any one of them provides it."""

    origin: Origin
    module: str
    tokens: frozenset[Token] = frozenset()


def package_token(name: str) -> Token:
    """The token of a third-party package."""
    return f"package {name}"


class Resolver:
    """Answers for one workspace, and remembers."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.providers: dict[str, list[str]] = {}
        self._modules: dict[str, set[str]] = {}
        self._sources: dict[str, frozenset[str]] = {}
        self._closures: dict[str, frozenset[Token]] = {}
        self._tokens: dict[str, frozenset[Token]] = {}
        self._edges: dict[str, tuple[str, ...]] = {}
        self._deps: dict[str, tuple[str, ...]] = {}
        self._at_hand: dict[str, frozenset[Token]] = {}
        for label, target in sorted(workspace.python.items()):
            roots = ["", *_import_roots(target)]
            for path in self.sources(label):
                self.providers.setdefault(path, []).append(label)
                for name in _names(path, roots):
                    self._modules.setdefault(name, set()).add(path)
        self._on_disk = {
            name: path
            for path in workspace.paths
            if path.endswith(".py")
            for name in _names(path, [""])
        }

    def sources(self, label: str) -> frozenset[str]:
        """Paths of the Python files of a target, generated ones among them."""
        if label not in self._sources:
            target = self.workspace.graph.targets[label]
            files = (self.workspace.files(source) for source in labels(target, "srcs"))
            found = frozenset(path for part in files for path in part if path.endswith(".py"))
            self._sources[label] = found
        return self._sources[label]

    def provided(self, label: str) -> frozenset[Token]:
        """What a direct dep on `label` lets a target import; a target without sources hands on."""
        if label not in self._at_hand:
            self._at_hand[label] = frozenset(self._provided(label, set()))
        return self._at_hand[label]

    def _provided(self, label: str, seen: set[str]) -> Iterable[Token]:
        name = self.workspace.packages.distribution(label)
        if name is not None:
            return [package_token(name)]
        target = self.workspace.graph.targets.get(label)
        if target is None or label in seen:
            return []
        seen.add(label)
        further = forwards(target)
        if further is None:
            return self.sources(label) if label in self.workspace.python else []
        return [token for dep in further for token in self._provided(dep, seen)]

    def closure(self, label: str) -> frozenset[Token]:
        """Every module and data file that is there when `label` runs."""
        if label not in self._closures:
            below = self._below(label, self._needed)
            found = frozenset(token for here in below for token in self._held(here))
            self._closures[label] = found
        return self._closures[label]

    def has_opaque(self, label: str) -> bool:
        """True if a dep, direct or not, may hold modules that the graph does not show."""
        return any(self._is_opaque(here) for here in self._below(label, self._imported))

    def _below(self, label: str, further: Callable[[str], Iterable[str]]) -> Iterator[str]:
        todo, seen = [label], {label}
        while todo:
            here = todo.pop()
            yield here
            for other in further(here):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)

    def _held(self, label: str) -> frozenset[Token]:
        if label not in self._tokens:
            name = self.workspace.packages.distribution(label)
            own = frozenset({package_token(name)}) if name else self.workspace.files(label)
            self._tokens[label] = own
        return self._tokens[label]

    def _needed(self, label: str) -> tuple[str, ...]:
        if label not in self._edges:
            target = self.workspace.graph.targets.get(label)
            found: list[str] = []
            if target is not None and self.workspace.packages.distribution(label) is None:
                found = [dep for a in ("srcs", "data") for dep in labels(target, a)]
            self._edges[label] = (*found, *self._imported(label))
        return self._edges[label]

    def _imported(self, label: str) -> tuple[str, ...]:
        if label not in self._deps:
            target = self.workspace.graph.targets.get(label)
            found: list[str] = []
            if target is not None and self.workspace.packages.distribution(label) is None:
                found = labels(target, "deps") + (forwards(target) or [])
            self._deps[label] = tuple(found)
        return self._deps[label]

    def _is_opaque(self, label: str) -> bool:
        if self.workspace.packages.distribution(label) is not None:
            return False
        target = self.workspace.graph.targets.get(label)
        return target is None or (target.kind == RULE and not self._is_open(target))

    def _is_open(self, target: Target) -> bool:
        return is_python(target) or forwards(target) is not None or target.rule_class in _PLAIN

    def reaches(self, start: str, end: str) -> bool:
        """True if `start` depends on `end`, directly or not."""
        targets = self.workspace.graph.targets
        below = self._below(start, lambda label: targets[label].deps if label in targets else ())
        return end in below

    def resolve(self, modules: Iterable[str], importer: str, at_hand: frozenset[Token]) -> Found:
        """What the first of `modules` that exists is, for an import in the file `importer`.

        at_hand: what the importer's target can import, to tell two modules of one name apart.
        """
        folder = None
        for module in modules:
            found = self._one(module, importer, at_hand)
            if found.origin is Origin.FOLDER:
                # `from folder import name`: a module in it was asked for first.
                folder = folder or found
            elif found.origin is not Origin.UNKNOWN:
                return found
        modules = list(modules)
        if folder is not None and folder.module == modules[0]:
            return folder
        return Found(Origin.UNKNOWN, modules[-1])

    def _one(self, module: str, importer: str, at_hand: frozenset[Token]) -> Found:
        top = module.partition(".")[0]
        files = frozenset(self._modules.get(module, ()))
        if files and (top not in _STANDARD or files & at_hand):
            return Found(Origin.TARGET, module, files)
        if module in self._on_disk and not self._is_init(module) and top not in _STANDARD:
            return Found(Origin.NO_TARGET, module, frozenset({self._on_disk[module]}))
        if top in _STANDARD:
            return Found(Origin.STANDARD, module)
        packages = self.workspace.packages
        held = [token.removeprefix("package ") for token in at_hand if token.startswith("package ")]
        owners = packages.owners(module, packages.locked or held)
        if owners:
            return Found(Origin.PACKAGE, module, frozenset(map(package_token, owners)))
        if module.replace(".", "/") in self.workspace.folders:
            return Found(Origin.FOLDER, module)
        # A script's own folder is searched as well.
        beside = posixpath.join(posixpath.dirname(importer), module.replace(".", "/") + ".py")
        if beside in self.providers:
            return Found(Origin.TARGET, module, frozenset({beside}))
        return Found(Origin.UNKNOWN, module)

    def _is_init(self, module: str) -> bool:
        return self._on_disk[module].endswith("/__init__.py")


def _import_roots(target: Target) -> list[str]:
    package = target.label[2:].partition(":")[0]
    roots = target.attributes.get("imports")
    found = roots if isinstance(roots, list) else []
    return [posixpath.normpath(posixpath.join(package, root)).removeprefix(".") for root in found]


def _names(path: str, roots: Iterable[str]) -> Iterable[str]:
    for root in roots:
        prefix = f"{root}/" if root else ""
        if path.startswith(prefix) and path.endswith(".py"):
            inner = path[len(prefix) : -3].removesuffix("/__init__")
            yield inner.replace("/", ".")
