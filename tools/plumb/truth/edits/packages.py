"""Edits of packages, of who may use what, and of select()s."""

from __future__ import annotations

from random import Random

from tools.plumb.truth.edits.registry import any_package, append, kind
from tools.plumb.truth.model import CHECK, Model, Package, Rule


@kind("BUILD file added or removed below a glob")
def _inner_build(model: Model, chance: Random) -> None:
    name = f"{any_package(model, chance)[0]}/inner"
    if name in model.packages:
        del model.packages[name]
    else:
        model.packages[name] = Package()


@kind("package of new files below another")
def _package_below(model: Model, chance: Random) -> None:
    name = f"{any_package(model, chance)[0]}/{model.new_name('below')}"
    rule = Rule("filegroup", {"srcs": '["new.txt"]'})
    model.packages[name] = Package({"new": rule})
    model.files[f"{name}/new.txt"] = "new\n"


@kind("package group")
def _group(model: Model, chance: Random) -> None:
    attributes = any_package(model, chance)[1].rules["friends"].attributes
    attributes["packages"] = f'["//...", "//{model.new_name("q")}"]'


@kind("visibility")
def _visibility(model: Model, chance: Random) -> None:
    rule = any_package(model, chance)[1].rules[chance.choice(["data", "lib", "chosen"])]
    if rule.attributes.pop("visibility", None) is None:
        rule.attributes["visibility"] = '["//:__subpackages__"]'


@kind("deprecation")
def _deprecation(model: Model, chance: Random) -> None:
    rule = any_package(model, chance)[1].rules["data"]
    rule.attributes["deprecation"] = f'"{model.new_name("old ")}"'


@kind("branch of a select")
def _branch(model: Model, chance: Random) -> None:
    append(model, f"{any_package(model, chance)[0]}/{chance.choice(['cpu', 'gpu'])}.txt")


@kind("branch of a select in a BUILD file")
def _branch_value(model: Model, chance: Random) -> None:
    rule = any_package(model, chance)[1].rules["chosen"]
    has = '"gpu.txt", "spare.txt"' in rule.attributes["srcs"]
    rule.attributes["srcs"] = (
        rule.attributes["srcs"].replace('"gpu.txt", "spare.txt"', '"gpu.txt"')
        if has
        else rule.attributes["srcs"].replace('"gpu.txt"', '"gpu.txt", "spare.txt"')
    )


@kind("package() settings")
def _settings(model: Model, chance: Random) -> None:
    any_package(model, chance)[1].settings["features"] = f'["{model.new_name("f")}"]'


@kind("package added")
def _package_added(model: Model, chance: Random) -> None:
    name = model.new_name("extra")
    rule = Rule("checked", {"data": f'["//{any_package(model, chance)[0]}:data"]'})
    model.packages[name] = Package({"one_test": rule})
    model.files[f"{name}/check.sh"] = CHECK


@kind("package deleted")
def _package_deleted(model: Model, chance: Random) -> None:
    for name in [name for name in model.packages if name.startswith("extra")][:1]:
        del model.packages[name]
        del model.files[f"{name}/check.sh"]
