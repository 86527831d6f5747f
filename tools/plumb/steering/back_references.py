"""What external repositories refer back to in the main one, as far as its own files say so.

Bazel's query shows the main repository only. A target such as @ext//:x has no deps there,
although a BUILD file that the main repository gives to @ext may name //lib:core.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator

from tools.plumb.graph import canonical, source_path
from tools.plumb.starlark import syntax
from tools.plumb.trees.files import FileTable

# Repositories that Bazel itself defines: they know no target of ours.
_BUILT_IN = re.compile(r"(?:bazel_tools|platforms|local_config_.*|remote_.*)")
_WITH_REPOSITORY = re.compile(r"@{1,2}[\w.~+-]*//[\w./~+-]*(?::[\w./~+=,-]+)?")
_PLAIN = re.compile(r"//[\w./~+-]*(?::[\w./~+=,-]+)?")
# The label of the whole main repository as one folder.
_WHOLE = "//:."
_READ_SUFFIXES = ("BUILD", "BUILD.bazel", ".bzl", ".scl")
ANY = ""


def read(
    files: FileTable, steering: Iterable[str], own_names: Collection[str]
) -> dict[str, set[str]]:
    """Name of a repository to the labels that its definition names; ANY where no name is said.

    steering: paths of WORKSPACE, of its like and of what these load.
    own_names: the main repository's names.
    """
    found: dict[str, set[str]] = {}
    for path in steering:
        text = files.text(path) or ""
        for owner, strings, folders in _definitions(text):
            labels = {label for string in strings for label in _labels(string, own_names)}
            for label in set(labels):
                named = source_path(label)
                if named and files.is_file(named):
                    # A change of the file itself affects everything already.
                    labels.discard(label)
                    labels |= _explicit(files.text(named) or "", own_names)
            for folder in folders:
                labels |= labels_below(folder, files, own_names)
            if owner == ANY:
                # Of what every repository is taken to need, only the main one's targets.
                labels = {label for label in labels if label.startswith("//")}
            if labels:
                found.setdefault(owner, set()).update(labels)
    return found


def is_built_in(repository: str) -> bool:
    """True for a repository that Bazel itself defines."""
    return _BUILT_IN.fullmatch(repository) is not None


def of(repository: str, references: dict[str, set[str]]) -> set[str]:
    """The labels that targets of `repository` may depend on."""
    if is_built_in(repository):
        return set()
    return references.get(repository, set()) | references.get(ANY, set())


def _definitions(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """For each statement: the repository that it defines, its strings, and its path arguments."""
    try:
        body = syntax.parse(text).body
    except SyntaxError:
        yield ANY, [text], []
        return
    for statement in body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "load":
            continue
        owner, folders = ANY, []
        for keyword in call.keywords if isinstance(call, ast.Call) else []:
            if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
                owner = keyword.value.value if keyword.arg == "name" else owner
                folders += [keyword.value.value] if keyword.arg == "path" else []
        constants = (node.value for node in ast.walk(statement) if isinstance(node, ast.Constant))
        yield owner, [value for value in constants if isinstance(value, str)], folders


def _labels(string: str, own_names: Collection[str]) -> set[str]:
    plain = {canonical(string)} if _PLAIN.fullmatch(string) else set()
    return plain | _explicit(string, own_names)


def _explicit(text: str, own_names: Collection[str]) -> set[str]:
    """Labels in `text` that name their repository, the main one as //."""
    found = set()
    for label in _WITH_REPOSITORY.findall(text):
        repository, _, rest = label.lstrip("@").partition("//")
        found.add(canonical(f"//{rest}" if repository in own_names else f"@{repository}//{rest}"))
    return found


def labels_below(folder: str, files: FileTable, own_names: Collection[str]) -> set[str]:
    """Labels of the main repository that loaded files in `folder` name; "." is all of it."""
    folder = posixpath.normpath(folder)
    if folder == ".":
        return {_WHOLE}
    found = files.resolve(folder)
    if found is None or not files.is_folder(found):
        return set()
    texts = (files.text(p) or "" for p in files.below(found) if p.endswith(_READ_SUFFIXES))
    return {label for text in texts for label in _explicit(text, own_names)}
