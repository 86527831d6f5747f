"""Edits of what BUILD files say of targets."""

from __future__ import annotations

from random import Random

from tools.plumb.truth.edits.registry import any_package, any_test, kind
from tools.plumb.truth.model import Model, Rule


@kind("comment in a BUILD file")
def _build_comment(model: Model, chance: Random) -> None:
    any_package(model, chance)[1].comments.append(f"# {model.new_name('comment ')}")


@kind("attribute change")
def _attribute(model: Model, chance: Random) -> None:
    any_test(model, chance)[2].attributes["args"] = f'["{model.new_name("x")}"]'


@kind("environment change")
def _environment(model: Model, chance: Random) -> None:
    any_test(model, chance)[2].attributes["env"] = f'{{"A": "{model.new_name("x")}"}}'


@kind("default spelled out")
def _default(model: Model, chance: Random) -> None:
    attributes = any_test(model, chance)[2].attributes
    attributes["flaky"] = "0" if attributes.get("flaky") == "False" else "False"


@kind("deps in another order")
def _order(model: Model, chance: Random) -> None:
    package = any_package(model, chance)[1]
    attributes = package.rules["parts_test"].attributes
    attributes["data"] = (
        '[":chosen", ":joined"]'
        if attributes["data"].startswith('[":j')
        else '[":joined", ":chosen"]'
    )


@kind("dep added")
def _dep(model: Model, chance: Random) -> None:
    rule = any_package(model, chance)[1].rules["alias_test"]
    has = ":spare" in rule.attributes["data"]
    rule.attributes["data"] = '[":alias"]' if has else '[":alias", ":spare"]'


@kind("tag of a test")
def _tag(model: Model, chance: Random) -> None:
    tags = f'["seconds:{model.serial}", "covers:{model.new_name("a.b")}"]'
    any_test(model, chance)[2].attributes["tags"] = tags


@kind("tag of a library")
def _library_tag(model: Model, chance: Random) -> None:
    target = chance.choice(["lib", "data", "made", "joined"])
    rule = any_package(model, chance)[1].rules[target]
    rule.attributes["tags"] = f'["{model.new_name("t")}"]'


@kind("target added")
def _added(model: Model, chance: Random) -> None:
    package = any_package(model, chance)[1]
    package.rules[model.new_name("new_test")] = Rule("checked", {"data": '[":data"]'})


@kind("target deleted")
def _deleted(model: Model, chance: Random) -> None:
    package = any_package(model, chance)[1]
    for name in [name for name in package.rules if name.startswith("new_test")][:1]:
        del package.rules[name]


@kind("target renamed")
def _renamed(model: Model, chance: Random) -> None:
    package = any_package(model, chance)[1]
    names = [name for name in package.rules if name.startswith("new_test")] or ["folder_test"]
    rule = package.rules.pop(names[0])
    package.rules[model.new_name("new_test") if names[0] != "folder_test" else names[0]] = rule


@kind("alias retargeted")
def _alias(model: Model, chance: Random) -> None:
    attributes = any_package(model, chance)[1].rules["alias"].attributes
    attributes["actual"] = '":spare"' if attributes["actual"] == '":data"' else '":data"'


@kind("test suite")
def _suite(model: Model, chance: Random) -> None:
    attributes = any_package(model, chance)[1].rules["suite"].attributes
    has = ":made_test" in attributes["tests"]
    attributes["tests"] = '[":lib_test"]' if has else '[":lib_test", ":made_test"]'


@kind("generated file")
def _generated(model: Model, chance: Random) -> None:
    rule = any_package(model, chance)[1].rules["made"]
    rule.attributes["cmd"] = f'"(cat $<; echo {model.new_name("g")}) > $@"'


@kind("generated file that comes out the same", beyond="only making the file shows it")
def _generated_same(model: Model, chance: Random) -> None:
    rule = any_package(model, chance)[1].rules["made"]
    rule.attributes["cmd"] = f'": {model.new_name("g")}; {rule.attributes["cmd"][1:]}'
