"""The workspace's own table for what no source and no BUILD file says, a reason with each entry."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tools.plumb.errors import PlumbError

POLICY_PATH = "tools/plumb/deps/policy.toml"


@dataclass(frozen=True)
class Dynamic:
    """What the calls of `file` with no literal may import: `modules`, perhaps none."""

    file: str
    modules: list[str]
    reason: str


@dataclass(frozen=True)
class Absent:
    """A module, or a data file's path, that `target` names and may do without."""

    target: str
    name: str
    reason: str


@dataclass(frozen=True)
class Policy:
    """The table. labels: forms of third-party labels, with {name} for the package's name.

    imports: a package's name to the modules that it provides, where they are not the name.
    """

    labels: tuple[str, ...] = ()
    imports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dynamic: tuple[Dynamic, ...] = ()
    absent: tuple[Absent, ...] = ()

    def modules_of(self, file: str) -> Dynamic | None:
        """The entry for the dynamic imports of `file`."""
        return next((entry for entry in self.dynamic if entry.file == file), None)


def parse(text: str) -> Policy:
    """The policy in a TOML text. Raises PlumbError that says how an entry should look."""
    try:
        content = tomllib.loads(text)
        packages = content.pop("packages", {})
        policy = Policy(
            labels=tuple(packages.get("labels", ())),
            imports={name: tuple(found) for name, found in packages.get("imports", {}).items()},
            dynamic=tuple(Dynamic(**entry) for entry in content.pop("dynamic", [])),
            absent=tuple(Absent(**entry) for entry in content.pop("absent", [])),
        )
    except (ValueError, RecursionError, TypeError, AttributeError) as error:
        raise PlumbError(
            f"{POLICY_PATH} cannot be read: {error}. It holds [packages] with labels and "
            "[packages.imports], [[dynamic]] with file, modules, reason, and [[absent]] with "
            "target, name, reason."
        ) from error
    if content:
        raise PlumbError(f"{POLICY_PATH}: unknown table '{next(iter(content))}'.")
    for entry in (*policy.dynamic, *policy.absent):
        _check(entry)
    return policy


def _check(entry: Any) -> None:
    for part in fields(entry):
        value = getattr(entry, part.name)
        listed = part.name == "modules"
        right = isinstance(value, list) if listed else isinstance(value, str) and value.strip()
        if not right:
            raise PlumbError(
                f"{POLICY_PATH}: [[{type(entry).__name__.lower()}]] has {part.name} = {value!r}; "
                f"write {'a list' if listed else 'some words'}."
            )
