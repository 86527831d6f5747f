"""Files that steer Bazel itself, outside any target: a change in one can change every result.

These are WORKSPACE and its like, the .bazelrc files, and what these load or name by label.
The locks that pip_parse reads are kept apart, since they are followed wheel by wheel.
"""

from __future__ import annotations

import ast
import io
import posixpath
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.plumb.graph import canonical, source_path
from tools.plumb.options import rc
from tools.plumb.starlark import repositories, shell, source, syntax
from tools.plumb.steering import back_references, rc_files
from tools.plumb.trees.files import FileTable

WORKSPACE_FILES = ("WORKSPACE.bazel", "WORKSPACE", "MODULE.bazel")
_STEERING_FILES = (
    *WORKSPACE_FILES,
    "WORKSPACE.bzlmod",
    "MODULE.bazel.lock",
    "REPO.bazel",
    ".bazelversion",
    ".bazeliskrc",
    ".bazelignore",
    "tools/bazel",
)
BUILD_FILES = ("BUILD", "BUILD.bazel")
# What it hides shows in the graph.
_IGNORED = ".bazelignore"
_VERSION, _ENTRY = ".bazelversion", "tools/bazel"
_LOADED_SUFFIXES = (".bzl", ".scl")
_PIP_RULES = ("pip_parse", "pip_repository", "pip_install")
_INCLUDED_SUFFIX = ".MODULE.bazel"
_OWN_NAME = re.compile(
    r"^(?:workspace|module)\([^)]*?\b(?:name|repo_name)\s*=\s*[\"']([\w.-]+)", re.MULTILINE
)


@dataclass
class SteeringInputs:
    """identities: path to identity of each file (or folder) that can change every result.

    loaded: the same of those whose effect shows elsewhere: in the graph, in options, or in
    repositories.
    locks: name of a pip hub, such as 'pip', to the path of its lock.
    labels: targets that options of .bazelrc name, such as a platform.
    options: the lines of .bazelrc, which `rc_files` hold. configs: names that they define for
    --config.
    repositories: name of one that WORKSPACE defines by itself to a digest of its definition.
    opaque: those of them that may refer to any other.
    back: an external repository's name to the labels that its definition refers back to.
    own_names: every name by which labels can call the main repository.
    """

    identities: dict[str, str] = field(default_factory=dict)
    loaded: dict[str, str] = field(default_factory=dict)
    locks: dict[str, str] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    options: list[rc.Line] = field(default_factory=list)
    rc_files: list[str] = field(default_factory=list)
    configs: set[str] = field(default_factory=set)
    repositories: dict[str, str] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    back: dict[str, set[str]] = field(default_factory=dict)
    own_names: frozenset[str] = frozenset({""})

    def paths(self) -> set[str]:
        """Every path whose content is accounted for here."""
        return self.identities.keys() | self.loaded.keys()


def is_workspace(files: FileTable) -> bool:
    """True if the tree is the root of a Bazel workspace."""
    return any(files.is_file(name) for name in WORKSPACE_FILES)


def is_build_file(path: str) -> bool:
    """True for a file that declares a package."""
    return posixpath.basename(path) in BUILD_FILES


def is_loaded_file(path: str) -> bool:
    """True for a file that BUILD files load: what it changes shows in the graph."""
    return path.endswith(_LOADED_SUFFIXES)


def is_steering(path: str) -> bool:
    """True for a file whose name alone makes Bazel load it."""
    steers = path in _STEERING_FILES or path == rc.RC_FILE
    return steers or is_build_file(path) or is_loaded_file(path)


def read(files: FileTable) -> SteeringInputs:
    """The steering inputs of a tree."""
    found = SteeringInputs()
    named: set[str] = set()
    own_names = found.own_names = own_names_of(files)
    options = rc_files.read(files)
    found.options, found.labels, found.configs = options.lines, options.labels, options.configs
    found.rc_files = options.files
    todo = [path for path in _STEERING_FILES if files.is_file(path)]
    while todo:
        path = todo.pop()
        if path in found.paths():
            continue
        if not _names_others(path):
            kept = found.loaded if path == _IGNORED else found.identities
            kept[path] = _identity(files, path)
            continue
        text = files.text(path) or ""
        found.locks |= _pip_locks(text, path, own_names)
        parts = _read_loaded(path, files, own_names, options.repositories, found)
        for other in _named_paths(parts, path, files, own_names):
            named.add(other)
            if _names_others(other):
                todo.append(other)
    found.back = back_references.read(files, filter(_names_others, found.paths()), own_names)
    for path in named - set(found.locks.values()) - found.paths():
        found.identities[path] = files.identity(path)
    found.identities |= {path: files.identity(path) for path in options.paths}
    found.loaded |= {path: files.identity(path) for path in options.files}
    for name, folder in options.overrides.items():
        found.back.setdefault(name, set()).update(
            back_references.labels_below(folder, files, own_names)
        )
    return found


def _identity(files: FileTable, path: str) -> str:
    """What tells a file that steers Bazel from another one that does the same."""
    text = files.text(path) if path in (_VERSION, _ENTRY) else None
    if text is None:
        return files.identity(path)
    if path == _VERSION:
        return text.strip()
    mode = files.identity(path).partition(" ")[0]
    return f"{mode} {source.digest(shell.without_comments(text))}"


def _read_loaded(
    path: str,
    files: FileTable,
    own_names: frozenset[str],
    named: set[str],
    found: SteeringInputs,
) -> str:
    """Notes the file by what it says, repositories apart. Returns what names other files still."""
    text = files.text(path) or ""
    if path not in ("WORKSPACE", "WORKSPACE.bazel"):
        known = files.text(path) is not None
        found.identities[path] = source.meaning(text) if known else files.identity(path)
        return text
    defined = repositories.read(text, named, _PIP_RULES)
    found.identities[path] = defined.rest
    found.loaded[path] = files.identity(path)
    found.opaque |= defined.opaque
    parts = syntax.parse(text).body if defined.definitions else []
    apart = {statement.lineno for statement in defined.definitions.values()}
    for name, statement in defined.definitions.items():
        # Files that only this repository is made of are part of its definition.
        paths = sorted(_named_paths(ast.unparse(statement), path, files, own_names))
        contents = {other: files.identity(other) for other in paths}
        found.loaded |= contents
        found.repositories[name] = source.digest(f"{ast.dump(statement)} {contents}")
    return "\n".join(ast.unparse(p) for p in parts if p.lineno not in apart) if parts else text


def own_names_of(files: FileTable) -> frozenset[str]:
    """Every name by which labels can call the main repository; "" is always one."""
    texts = [files.text(name) or "" for name in WORKSPACE_FILES]
    return frozenset({""}.union(*map(_names_in_calls, texts)))


def _names_in_calls(text: str) -> set[str]:
    try:
        module = syntax.parse(text)
    except SyntaxError:
        return set(_OWN_NAME.findall(text))
    return {
        keyword.value.value
        for call in _calls(module, ("workspace", "module"))
        for keyword in call.keywords
        if keyword.arg in ("name", "repo_name")
        if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)
    }


def _names_others(path: str) -> bool:
    """True for a steering file whose labels Bazel follows."""
    top = path in WORKSPACE_FILES or path == "WORKSPACE.bzlmod"
    return top or is_loaded_file(path) or path.endswith(_INCLUDED_SUFFIX)


def package_settings(build_file: str) -> str:
    """The arguments of package() that no rule's attributes show, in a form to compare.

    A file that Python's grammar cannot read is compared as a whole.
    """
    if "package(" not in build_file:
        return ""
    try:
        module = syntax.parse(build_file)
    except SyntaxError:
        return build_file
    shown = ("default_visibility", "default_testonly", "default_deprecation")
    return "\n".join(
        ast.dump(keyword)
        for call in _calls(module, ("package",))
        for keyword in call.keywords
        if keyword.arg not in shown
    )


def _pip_locks(text: str, path: str, own_names: frozenset[str]) -> dict[str, str]:
    try:
        module = syntax.parse(text)
    except SyntaxError:
        return {}
    locks = {}
    for call in _calls(module, _PIP_RULES):
        values = {
            k.arg: k.value.value
            for k in call.keywords
            if isinstance(k.value, ast.Constant) and isinstance(k.value.value, str)
        }
        lock = _label_path(values.get("requirements_lock", ""), path, own_names)
        if lock and values.get("name"):
            locks[values["name"]] = lock
    return locks


def _calls(module: ast.Module, names: tuple[str, ...]) -> Iterator[ast.Call]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else ""
            if isinstance(function, ast.Name):
                name = function.id
            if name in names:
                yield node


def _named_paths(text: str, path: str, files: FileTable, own_names: frozenset[str]) -> set[str]:
    """Files that `text` names by label, and folders that a local_repository takes by path."""
    labelled = {_label_path(literal, path, own_names) for literal in _literals(text)}
    found = {n for n in labelled if n and (files.is_file(n) or files.outside(n))}
    folders = {posixpath.normpath(folder) for folder in _path_arguments(text)}
    return found | {f for f in folders - {"."} if files.is_folder(f) or files.outside(f) == f}


def _path_arguments(text: str) -> Iterator[str]:
    try:
        module = syntax.parse(text)
    except SyntaxError:
        yield from _literals(text)
        return
    for node in ast.walk(module):
        if isinstance(node, ast.keyword) and node.arg == "path":
            value = node.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def _literals(text: str) -> Iterator[str]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.STRING:
                value = ast.literal_eval(token.string)
                if isinstance(value, str):
                    yield value
    except (tokenize.TokenError, SyntaxError, ValueError, IndentationError):
        yield from re.findall(r"[\"']([^\"'\n]+)[\"']", text)


def _label_path(literal: str, path: str, own_names: frozenset[str]) -> str | None:
    """Path of the file that a label in the file `path` names, if it is of the main repository."""
    if literal.startswith(":"):
        return posixpath.join(posixpath.dirname(path), literal[1:])
    repository, slashes, rest = literal.partition("//")
    if not slashes or (repository and not repository.startswith("@")):
        return None
    if repository.lstrip("@") not in own_names:
        return None
    return source_path(canonical(f"//{rest}"))
