"""The calls of the BUILD files, each with the Python targets that it declares.

A macro may declare several, such as one a pool: what one of them needs, the call has to give.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tools.plumb.deps import build_files
from tools.plumb.deps.build_files import Call, Literal
from tools.plumb.deps.workspace import Workspace, labels
from tools.plumb.graph import Target


@dataclass
class Declared:
    """The targets of one call. call: None where the BUILD file holds no call of that name."""

    package: str
    name: str
    build_file: str
    call: Call | None
    targets: list[Target] = field(default_factory=list)

    @property
    def label(self) -> str:
        """How buildozer names the call."""
        return f"//{self.package}:{self.name}"

    @property
    def by_hand(self) -> str:
        """Why buildozer cannot edit the call, or ""."""
        if self.call is None:
            return f"{self.build_file} holds no call named '{self.name}'; edit the macro"
        if self.call.name is None:
            where = f"{self.build_file}:{self.call.line}"
            return f"the call at {where} has no literal name, which buildozer needs; edit it there"
        return ""

    def literal(self, label: str) -> Literal | None:
        """Where the call itself writes `label`; None if a macro or a variable adds it."""
        return self.call.find(label) if self.call is not None else None

    def attribute(self) -> str:
        """The argument through which the call's targets get their deps."""
        deps = {label for target in self.targets for label in labels(target, "deps")}
        literals = self.call.literals if self.call is not None else ()
        named = Counter(literal.attribute for literal in literals if literal.label in deps)
        return named.most_common(1)[0][0] if named else "deps"


def declared(workspace: Workspace) -> list[Declared]:
    """Every call with a Python target, sorted by label.

    Raises SyntaxError with the file's name if a BUILD file cannot be read.
    """
    read: dict[str, tuple[Call, ...]] = {}
    found: dict[tuple[str, int | str], Declared] = {}
    for label, target in sorted(workspace.python.items()):
        package, _, own = label[2:].partition(":")
        path = workspace.build_file(package) or f"{package}/BUILD"
        if package not in read:
            read[package] = _calls(workspace, path, package)
        name = str(target.attributes.get("generator_name") or own)
        call = _call(read[package], name, str(target.attributes.get("generator_function") or ""))
        key = (package, call.line if call is not None else name)
        entry = found.setdefault(key, Declared(package, name, path, call))
        entry.targets.append(target)
    return sorted(found.values(), key=lambda entry: entry.label)


def _call(calls: tuple[Call, ...], name: str, function: str) -> Call | None:
    named = [call for call in calls if call.name == name]
    # A call in a comprehension has another name each time.
    nameless = [call for call in calls if call.name is None and call.function == function]
    found = named or nameless
    return found[0] if len(found) == 1 else None


def _calls(workspace: Workspace, path: str, package: str) -> tuple[Call, ...]:
    if path not in workspace.paths:
        return ()
    try:
        return build_files.read(workspace.text(path), package)
    except SyntaxError as error:
        error.filename = path
        raise
