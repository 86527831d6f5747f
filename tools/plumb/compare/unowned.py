"""Decides what a changed file means that the target graph does not account for."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any

from tools.plumb import pools
from tools.plumb.errors import PlumbError
from tools.plumb.graph import canonical
from tools.plumb.revision import Revision
from tools.plumb.steering.inputs import is_build_file, is_loaded_file
from tools.plumb.trees.files import SUBMODULE, SYMLINK, FileTable

POLICY_PATH = "tools/plumb/policy.toml"
NOTHING, EVERYTHING = "nothing", "everything"


@dataclass(frozen=True)
class Rule:
    """One entry of the policy file: what a file that `pattern` names affects, and why.

    affects: 'nothing', 'everything', or patterns of tests such as //testing/quant/...
    """

    pattern: str
    affects: str | tuple[str, ...]
    reason: str
    even_if_owned: bool = False

    def matches(self, path: str) -> bool:
        """True if the pattern names `path`."""
        return _compiled(self.pattern).fullmatch(path) is not None


@dataclass(frozen=True)
class Decision:
    """What was decided for one changed file. affects: as in Rule.

    mapped: False if no rule of the policy names the file.
    """

    path: str
    affects: str | tuple[str, ...]
    reason: str
    mapped: bool = True

    def reaches(self, label: str) -> bool:
        """True if the test `label` is one of those that the file affects."""
        return not isinstance(self.affects, str) and any(_names(p, label) for p in self.affects)


_UNKNOWN = (
    "no target lists it and no rule of the policy names it, so it may matter to any test; "
    f"add it to .gitignore, or a rule for it to {POLICY_PATH}"
)
# What plumb itself reads, until a rule says otherwise.
_OF_PLUMB = {
    POLICY_PATH: "it says what files mean that no target lists",
    pools.MAPPING_PATH: "it says where tests run, which affects none of them",
}
_SUBMODULE = (
    "a submodule that names another commit, whose files are not here to compare; fetch them with "
    "`git submodule update --init {path}`"
)
_KINDS: dict[str, type | tuple[type, ...]] = {
    "pattern": str,
    "affects": (str, tuple),
    "reason": str,
    "even_if_owned": bool,
}
_NEEDED = ("pattern", "affects", "reason")
_FORM = "An entry is [[rule]] with pattern, affects, reason and perhaps even_if_owned."


def policy_of(files: FileTable) -> tuple[Rule, ...]:
    """The policy that the tree itself holds; without one, no file is known to affect nothing.

    Raises PlumbError naming the entry that cannot be understood.
    """
    return parse_policy(files.text(POLICY_PATH) or "")


def parse_policy(text: str) -> tuple[Rule, ...]:
    """The rules in `text`. Raises PlumbError naming the entry that cannot be understood."""
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlumbError(f"{POLICY_PATH} cannot be read: {error}. {_FORM}") from error
    others = sorted(found.keys() - {"rule"})
    if others:
        raise PlumbError(f"{POLICY_PATH} says '{others[0]}', which is no part of a policy. {_FORM}")
    entries = found.get("rule", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise PlumbError(f"{POLICY_PATH} has a 'rule' that is no table. {_FORM}")
    return tuple(_rule(number, entry) for number, entry in enumerate(entries, 1))


def _rule(number: int, entry: dict[str, Any]) -> Rule:
    unknown, missing = sorted(entry.keys() - _KINDS.keys()), [k for k in _NEEDED if k not in entry]
    if unknown:
        raise PlumbError(f"{POLICY_PATH}: rule {number} says '{unknown[0]}'. {_FORM}")
    if missing:
        raise PlumbError(f"{POLICY_PATH}: rule {number} lacks '{missing[0]}'. {_FORM}")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    rule = Rule(**values)
    _check_kinds(rule, number)
    _check_affects(rule)
    return rule


def _check_affects(rule: Rule) -> None:
    patterns = rule.affects if isinstance(rule.affects, tuple) else ()
    wrong = [p for p in patterns if not (isinstance(p, str) and p.startswith("//"))]
    if wrong or (not patterns and rule.affects not in (NOTHING, EVERYTHING)):
        said = wrong[0] if wrong else rule.affects
        raise PlumbError(
            f"{POLICY_PATH}: rule '{rule.pattern}' says affects = '{said}'; "
            f"write '{NOTHING}', '{EVERYTHING}' or a list of tests such as ['//testing/...']."
        )


def _names(pattern: str, label: str) -> bool:
    """True if the target pattern, as Bazel writes them, covers `label`."""
    package, _, name = label.partition(":")
    if pattern.endswith("/..."):
        folder = pattern.removesuffix("/...")
        return folder in ("/", package) or package.startswith(f"{folder}/")
    wanted, _, target = canonical(pattern).partition(":")
    return wanted == package and target in (name, "all", "*")


def _check_kinds(rule: Rule, number: int) -> None:
    for name, kind in _KINDS.items():
        value = getattr(rule, name)
        if not isinstance(value, kind):
            wanted = "true or false" if kind is bool else "a string"
            raise PlumbError(
                f"{POLICY_PATH}: rule {number} has {name} = {value!r}; write {wanted}."
            )


def decide(
    changed: list[str], base: Revision, head: Revision, policy: tuple[Rule, ...]
) -> list[Decision]:
    """A decision for each changed path that the two target graphs leave open."""
    owned = _Owned(base, head)
    decisions = []
    for path in changed:
        rule = next((rule for rule in policy if rule.matches(path)), None)
        if owned.has(path) and not (rule and rule.even_if_owned):
            continue
        if rule is None and path in _OF_PLUMB:
            decisions.append(Decision(path, NOTHING, _OF_PLUMB[path]))
        elif rule is None:
            reason = _SUBMODULE.format(path=path) if _is_submodule(path, base, head) else _UNKNOWN
            decisions.append(Decision(path, EVERYTHING, reason, mapped=False))
        else:
            decisions.append(Decision(path, rule.affects, rule.reason))
    return decisions


def _is_submodule(path: str, *revisions: Revision) -> bool:
    entries = (revision.files.entries.get(path) for revision in revisions)
    return any(entry is not None and entry.mode == SUBMODULE for entry in entries)


class _Owned:
    """The paths whose change shows in the graphs or in what steers Bazel."""

    def __init__(self, *revisions: Revision) -> None:
        self._paths: set[str] = set()
        self._folders: set[str] = set()
        for revision in revisions:
            steering = revision.steering
            self._paths |= steering.paths() | set(steering.locks.values())
            self._folders |= {p for p in steering.paths() if revision.files.is_folder(p)}
            for path, entry in revision.files.entries.items():
                if entry.mode == SYMLINK and (is_build_file(path) or is_loaded_file(path)):
                    self._add(path, revision.files)
            paths = revision.graph.index.source_paths.keys()
            self._paths |= paths
            for path in revision.files.not_plain(paths):
                self._add(path, revision.files)

    def has(self, path: str) -> bool:
        if path in self._paths or is_build_file(path) or is_loaded_file(path):
            return True
        parts = path.split("/")
        return any("/".join(parts[:n]) in self._folders for n in range(1, len(parts)))

    def _add(self, path: str, files: FileTable) -> None:
        self._paths.add(path)
        parts = path.split("/")
        for n in range(1, len(parts)):
            entry = files.entries.get("/".join(parts[:n]))
            if entry is not None and entry.mode == SYMLINK:
                self._paths.add("/".join(parts[:n]))
        found = files.resolve(path)
        if found is not None:
            self._paths.add(found)
            if files.is_folder(found):
                self._folders |= {path, found}


def _compiled(pattern: str) -> re.Pattern[str]:
    parts = []
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", pattern):
        parts.append(
            {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
        )
    return re.compile("".join(parts), re.DOTALL)
