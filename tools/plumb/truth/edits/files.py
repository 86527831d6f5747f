"""Edits of files, and of where they are."""

from __future__ import annotations

from random import Random

from tools.plumb.truth.edits.registry import any_package, append, kind
from tools.plumb.truth.model import Model


@kind("source edit")
def _source(model: Model, chance: Random) -> None:
    append(model, f"{any_package(model, chance)[0]}/lib_test.py")


@kind("transitive source edit")
def _transitive(model: Model, chance: Random) -> None:
    append(model, f"{any_package(model, chance)[0]}/lib.py")


@kind("data edit")
def _data(model: Model, chance: Random) -> None:
    append(model, f"{any_package(model, chance)[0]}/data.txt")


@kind("edit of an unused source")
def _unused(model: Model, chance: Random) -> None:
    append(model, f"{any_package(model, chance)[0]}/spare.txt")


@kind("file added to a glob")
def _glob_add(model: Model, chance: Random) -> None:
    model.files[f"{any_package(model, chance)[0]}/parts/{model.new_name('n')}.txt"] = "new\n"


@kind("file removed from a glob")
def _glob_remove(model: Model, chance: Random) -> None:
    name = any_package(model, chance)[0]
    found = sorted(p for p in model.files if p.startswith(f"{name}/parts/") and p.endswith(".txt"))
    if len(found) > 1:
        del model.files[chance.choice(found)]


@kind("file moved")
def _moved(model: Model, chance: Random) -> None:
    name, package = any_package(model, chance)
    path = f"{model.new_name('moved')}.txt"
    old = package.rules["page"].attributes["srcs"].strip('["]')
    model.files[f"{name}/{path}"] = model.files.pop(f"{name}/{old}")
    package.rules["page"].attributes["srcs"] = f'["{path}"]'


@kind("file in a folder label")
def _folder(model: Model, chance: Random) -> None:
    model.files[f"{any_package(model, chance)[0]}/folder/{model.new_name('n')}.txt"] = "new\n"


@kind(
    "executable bit",
    demanded="Bazel does not notice it, but what runs the file does",
)
def _executable(model: Model, chance: Random) -> None:
    model.executable ^= {f"{any_package(model, chance)[0]}/data.txt"}


@kind("link retargeted")
def _link(model: Model, chance: Random) -> None:
    path = f"{any_package(model, chance)[0]}/link.txt"
    model.links[path] = "cpu.txt" if model.links[path] == "data.txt" else "data.txt"


@kind("documentation")
def _documentation(model: Model, chance: Random) -> None:
    model.files["notes.md"] += "more\n"


@kind("ignored file")
def _ignored(model: Model, chance: Random) -> None:
    model.files[f"{any_package(model, chance)[0]}/{model.new_name('x')}.ignored"] = "x\n"
