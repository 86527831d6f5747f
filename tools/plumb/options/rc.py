"""Reads .bazelrc as Bazel does: imports, commands that inherit options, and configs.

The options that reach `bazel test --config=NAME` are those of common, build and test, with each
--config replaced by what it stands for.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tools.plumb.graph import canonical
from tools.plumb.trees.files import FileTable

RC_FILE = ".bazelrc"
WORKSPACE = "%workspace%/"
_IMPORTS = ("import", "try-import")
# A command takes the options of those before it as well.
_TEST_COMMANDS = ("always", "common", "build", "test")
_PLATFORM_CONFIGS = "enable_platform_specific_config"
_SHORT = {"c": "compilation_mode", "j": "jobs", "k": "keep_going", "s": "subcommands"}
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "t", "y", "1"), "1"),
    **dict.fromkeys(("false", "no", "f", "n", "0"), "0"),
}


@dataclass(frozen=True)
class Line:
    """A line of a .bazelrc file: the command, its config ("" without), and the options."""

    command: str
    config: str
    words: tuple[str, ...]


def read(files: FileTable, path: str = RC_FILE) -> tuple[list[Line], list[str]]:
    """The lines of `path` and of what it imports, in order, and the paths that were read."""
    lines: list[Line] = []
    paths: list[str] = []
    _read(files, path, lines, paths)
    return lines, paths


def _read(files: FileTable, path: str, lines: list[Line], paths: list[str]) -> None:
    if path in paths or not files.is_file(path):
        return
    paths.append(path)
    for text in (files.text(path) or "").replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(text, comments=True)
        except ValueError:
            words = text.split()
        if words and words[0] in _IMPORTS:
            for imported in words[1:]:
                _read(files, imported.removeprefix(WORKSPACE), lines, paths)
        elif words:
            command, _, config = words[0].partition(":")
            lines.append(Line(command, config, tuple(words[1:])))


def effective(lines: Sequence[Line], configs: Iterable[str] = ()) -> dict[str, tuple[str, ...]]:
    """Name of each option that `bazel test` gets to its values in order, under `configs`.

    An option without a value is "1", with `no` before its name "0".
    """
    words = [*_words(lines, ""), *(f"--config={config}" for config in configs)]
    expanded = list(_expand(lines, words, ()))
    if _last(expanded, _PLATFORM_CONFIGS) == "1":
        expanded += _expand(lines, ["--config=linux"], ())
    found = dict[str, tuple[str, ...]]()
    for name, value in _options(expanded):
        name = canonical(name) if name.startswith(("//", "@")) else name
        found[name] = (*found.get(name, ()), value)
    startup = [word for line in lines if line.command == "startup" for word in line.words]
    for name, value in _options(startup):
        name = f"startup {name}"
        found[name] = (*found.get(name, ()), value)
    return found


def of_tests_alone(
    lines: Sequence[Line], configs: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Those of `effective` that `bazel build` does not get, or gets otherwise."""
    built = effective([line for line in lines if line.command != "test"], configs)
    tested = effective(lines, configs)
    return {name: values for name, values in tested.items() if built.get(name) != values}


def _words(lines: Iterable[Line], config: str) -> list[str]:
    lines = [line for line in lines if line.config == config]
    return [
        word
        for command in _TEST_COMMANDS
        for line in lines
        if line.command == command
        for word in line.words
    ]


def _expand(lines: Sequence[Line], words: Sequence[str], within: tuple[str, ...]) -> Iterator[str]:
    waiting = iter(words)
    for word in waiting:
        name, has_value, value = word.partition("=")
        if name != "--config":
            yield word
            continue
        config = value if has_value else next(waiting, "")
        if config and config not in within:
            yield from _expand(lines, _words(lines, config), (*within, config))


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        name, has_value, value = word.partition("=")
        if not word.startswith("-"):
            # What belongs to no option: kept, so that another one shows.
            yield "", word
            continue
        short = word.startswith("-") and not word.startswith("--")
        name = _SHORT.get(name.lstrip("-"), name.lstrip("-")) if short else name.removeprefix("--")
        if not has_value:
            if waiting and not waiting[0].startswith("-"):
                value = waiting.pop(0)
            elif name.startswith("no") and not short:
                name, value = name.removeprefix("no"), "0"
            else:
                value = "1"
        yield name, _BOOLEANS.get(value.lower(), value)


def _last(words: Sequence[str], option: str) -> str:
    return next((value for name, value in reversed([*_options(words)]) if name == option), "")
