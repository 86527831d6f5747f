"""What one target needs, and which of it its deps and data do not give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tools.plumb.deps import imports, paths
from tools.plumb.deps.calls import Declared
from tools.plumb.deps.findings import Finding, Kind
from tools.plumb.deps.imports import Import, Need
from tools.plumb.deps.policy import Absent
from tools.plumb.deps.resolve import Found, Origin, Resolver, Token
from tools.plumb.deps.suggest import Suggestions
from tools.plumb.deps.workspace import Workspace, is_runnable, labels
from tools.plumb.graph import Target

BY_MACRO = "a macro gives this source to the target"
_PYTEST = "package pytest"


@dataclass
class Needs:
    """used: tokens that the target's sources make use of. readable: False if a source is made
    only by the build, so that nobody knows what else it needs."""

    target: Target
    used: set[Token] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    readable: bool = True


class Reader:
    """Reads the targets of one workspace, each file once."""

    def __init__(self, workspace: Workspace, resolver: Resolver) -> None:
        self.workspace = workspace
        self.resolver = resolver
        self.suggestions = Suggestions(workspace, resolver)
        self.absent_used: set[Absent] = set()
        self.dynamic_seen: set[str] = set()
        self._imports: dict[str, imports.Imports | SyntaxError] = {}
        self._reads: dict[str, tuple[paths.Read, ...]] = {}

    def read(self, call: Declared, target: Target) -> Needs:
        """What `target`, which `call` declares, needs."""
        needs = Needs(target)
        one = _Target(self, call, target, needs)
        for path in sorted(self.resolver.sources(target.label)):
            if path not in self.workspace.paths:
                needs.readable = False
                continue
            one.read_imports(path)
            one.read_files(path)
        one.read_arguments()
        one.read_conftests()
        return needs

    def imports(self, path: str) -> imports.Imports | SyntaxError:
        """The imports of a file, or why Python cannot parse it."""
        if path not in self._imports:
            try:
                self._imports[path] = imports.read(self.workspace.text(path), path)
                # Also of what the paths that it names would say, which goes deeper.
                paths.read(self.workspace.text(path), path)
            except SyntaxError as error:
                self._imports[path] = error
        return self._imports[path]

    def files_read(self, path: str) -> tuple[paths.Read, ...]:
        """The paths that a file names; none if Python cannot parse it."""
        if path not in self._reads:
            readable = not isinstance(self.imports(path), SyntaxError)
            found = paths.read(self.workspace.text(path), path) if readable else ()
            self._reads[path] = found
        return self._reads[path]


class _Target:
    def __init__(self, reader: Reader, call: Declared, target: Target, needs: Needs) -> None:
        self.reader, self.call, self.target, self.needs = reader, call, target, needs
        resolver = reader.resolver
        self.own = resolver.sources(target.label)
        given = [resolver.provided(dep) for dep in labels(target, "deps")]
        # A binary of the same source as a library leaves the deps to the library.
        for dep in labels(target, "deps"):
            if resolver.provided(dep) & self.own:
                needs.used |= resolver.provided(dep)
                twin = reader.workspace.graph.targets[dep]
                given += [resolver.provided(further) for further in labels(twin, "deps")]
        self.direct = self.own.union(*given)
        self.closure = resolver.closure(target.label)
        # What a foreign rule or repository provides, nobody can see here.
        self.opaque = resolver.has_opaque(target.label)

    def read_imports(self, path: str) -> None:
        """Compares the imports of one source."""
        found = self.reader.imports(path)
        if isinstance(found, SyntaxError):
            self.needs.readable = False
            self._add(Kind.UNREADABLE, f"{path}:{found.lineno}", str(found.msg), "mend its syntax")
            return
        for one in (*found.found, *self._dynamic(path, found.dynamic)):
            self._judge(one, path, f"{path}:{one.line}")

    def read_arguments(self) -> None:
        """Compares what the arguments of the target name after -m or -p."""
        arguments = self.target.attributes.get("args")
        for module in imports.named_in_arguments(arguments if isinstance(arguments, list) else []):
            one = Import(0, f"-p {module}", (f"{module}.__main__", module), Need.NAMED)
            self._judge(one, self.call.build_file, self.call.build_file)

    def read_conftests(self) -> None:
        """Pytest reads each conftest.py above a test, if Bazel puts it there."""
        if not self.target.is_test or _PYTEST not in self.closure:
            return
        folders = {path.rpartition("/")[0] for path in self.own if path.endswith("_test.py")}
        for path in sorted({path for folder in folders for path in _conftests(folder)}):
            self.needs.used.add(path)
            if path in self.reader.workspace.paths and path not in self.closure:
                self._lack(Kind.MISSING, path, "pytest's conftest.py of the test", {path}, "")

    def read_files(self, path: str) -> None:
        """Compares the data files of one source."""
        for read in self.reader.files_read(path):
            if "*" in read.path:
                self._read_glob(f"{path}:{read.line}", read.path)
                continue
            self.needs.used.add(read.path)
            # Bazel makes an __init__.py wherever a module is.
            known = read.path in self.reader.workspace.paths and "__init__.py" not in read.path
            if known and not self._has_file(read.path) and not self._absent(read.path):
                self._lack_file(f"{path}:{read.line}", read.path)

    def _read_glob(self, where: str, pattern: str) -> None:
        found = self.reader.workspace.matching(pattern)
        self.needs.used |= found
        absent = sorted(p for p in found if "__init__.py" not in p and not self._has_file(p))
        if absent and not self._absent(pattern):
            said = f"{len(absent)} of the {len(found)} files are no input, such as {absent[0]}"
            self._add(Kind.MISSING, where, pattern, f"{said}; add them to data or deps")

    def _dynamic(self, path: str, calls: Iterable[imports.Dynamic]) -> Iterator[Import]:
        for call in calls:
            self.reader.dynamic_seen.add(path)
            entry = self.reader.workspace.policy.modules_of(path)
            if entry is None:
                hint = "say in the policy's [[dynamic]] what it may import, with a reason"
                self._add(Kind.DYNAMIC, f"{path}:{call.line}", call.text, hint)
            else:
                for module in entry.modules:
                    yield Import(call.line, call.text, (module,))

    def _judge(self, one: Import, path: str, where: str) -> None:
        found = self.reader.resolver.resolve(one.modules, path, self.direct | self.closure)
        self.needs.used |= found.tokens
        if one.need is Need.MENTION or found.tokens & self.direct or self._is_free(found):
            return
        if one.need is Need.NAMED and found.origin not in (Origin.TARGET, Origin.PACKAGE):
            return
        foreign_repository = found.origin is Origin.UNKNOWN and self.opaque
        if foreign_repository or self._absent(found.module):
            return
        foreign = self._foreign(path)
        if found.origin is Origin.NO_TARGET:
            file = min(found.tokens)
            hint = f"no target lists {file}; declare a py_library for it"
            self._add(Kind.NO_TARGET, where, one.text, hint)
        elif found.origin in (Origin.TARGET, Origin.PACKAGE):
            kind = Kind.INDIRECT if found.tokens & self.closure else Kind.MISSING
            self._lack(kind, where, one.text, found.tokens, foreign)
        else:
            hint = f"no target, no package and no standard module is called {found.module}"
            self._add(Kind.UNKNOWN, where, one.text, hint)

    def _is_free(self, found: Found) -> bool:
        return found.origin in (Origin.STANDARD, Origin.FOLDER)

    def _foreign(self, path: str) -> str:
        label = f"//{self.reader.workspace.package_of(path)}"
        if label == f"//{self.call.package}" or path == self.call.build_file:
            return ""
        name = path[len(label) - 1 :] if label != "//" else path
        return "" if self.call.literal(f"{label}:{name}") else BY_MACRO

    def _has_file(self, path: str) -> bool:
        if path in self.closure or "external" in self.target.tags:
            return True
        if is_runnable(self.target):
            return False
        # A library's users may hold the file, if each of them does.
        users = self.reader.suggestions.users(self.target.label)
        return bool(users) and all(
            "external" in user.tags or path in self.reader.resolver.closure(user.label)
            for user in users
        )

    def _absent(self, name: str) -> bool:
        for entry in self.reader.workspace.policy.absent:
            if entry.target in (self.target.label, self.call.label) and (
                name == entry.name or name.startswith(f"{entry.name}.")
            ):
                self.reader.absent_used.add(entry)
                return True
        return False

    def _lack(
        self, kind: Kind, where: str, what: str, tokens: Iterable[Token], foreign: str
    ) -> None:
        label, reason = self.reader.suggestions.dep(frozenset(tokens), self.target)
        reason = foreign or reason or self.call.by_hand
        self._add(kind, where, what, reason, label, self.call.attribute())

    def _lack_file(self, where: str, path: str) -> None:
        label, reason = self.reader.suggestions.data(path, self.target)
        self._add(Kind.MISSING, where, path, reason or self.call.by_hand, label, "data")

    def _add(
        self, kind: Kind, where: str, what: str, by_hand: str, label: str = "", attribute: str = ""
    ) -> None:
        targets = (self.target.label,)
        self.needs.findings.append(
            Finding(kind, self.call.label, targets, attribute, label, where, what, by_hand)
        )


def _conftests(folder: str) -> Iterator[str]:
    while True:
        yield f"{folder}/conftest.py" if folder else "conftest.py"
        if not folder:
            return
        folder = folder.rpartition("/")[0]
