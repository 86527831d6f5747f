"""Random edits of the synthetic workspace, one function a kind of change.

Each takes the model and a source of chance. DELIBERATE kinds are those for which plumb is meant
to name tests that Bazel leaves alone, since Bazel does not notice or since nobody can know.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tools.plumb.truth.model import CHECK, Model, Package, Rule

Edit = Callable[[Model, Random], None]
KINDS: dict[str, Edit] = {}
DELIBERATE: set[str] = set()


def _kind(name: str, *, deliberate: bool = False) -> Callable[[Edit], Edit]:
    def register(edit: Edit) -> Edit:
        KINDS[name] = edit
        if deliberate:
            DELIBERATE.add(name)
        return edit

    return register


def _package(model: Model, chance: Random) -> tuple[str, Package]:
    name = chance.choice(
        sorted(name for name in model.packages if name.startswith("p") and "/" not in name)
    )
    return name, model.packages[name]


def _test(model: Model, chance: Random) -> tuple[Package, str, Rule]:
    _, package = _package(model, chance)
    name = chance.choice(sorted(n for n, r in package.rules.items() if r.kind == "checked"))
    return package, name, package.rules[name]


def _append(model: Model, path: str) -> None:
    model.files[path] += f"# {model.new_name('edit ')}\n"


@_kind("source edit")
def _source(model: Model, chance: Random) -> None:
    _append(model, f"{_package(model, chance)[0]}/lib_test.py")


@_kind("transitive source edit")
def _transitive(model: Model, chance: Random) -> None:
    _append(model, f"{_package(model, chance)[0]}/lib.py")


@_kind("data edit")
def _data(model: Model, chance: Random) -> None:
    _append(model, f"{_package(model, chance)[0]}/data.txt")


@_kind("edit of an unused source")
def _unused(model: Model, chance: Random) -> None:
    _append(model, f"{_package(model, chance)[0]}/spare.txt")


@_kind("comment in a BUILD file")
def _build_comment(model: Model, chance: Random) -> None:
    _package(model, chance)[1].comments.append(f"# {model.new_name('comment ')}")


@_kind("attribute change")
def _attribute(model: Model, chance: Random) -> None:
    _test(model, chance)[2].attributes["args"] = f'["{model.new_name("x")}"]'


@_kind("environment change")
def _environment(model: Model, chance: Random) -> None:
    _test(model, chance)[2].attributes["env"] = f'{{"A": "{model.new_name("x")}"}}'


@_kind("default spelled out")
def _default(model: Model, chance: Random) -> None:
    attributes = _test(model, chance)[2].attributes
    attributes["flaky"] = "0" if attributes.get("flaky") == "False" else "False"


@_kind("deps in another order")
def _order(model: Model, chance: Random) -> None:
    package = _package(model, chance)[1]
    attributes = package.rules["parts_test"].attributes
    attributes["data"] = (
        '[":chosen", ":joined"]'
        if attributes["data"].startswith('[":j')
        else '[":joined", ":chosen"]'
    )


@_kind("dep added")
def _dep(model: Model, chance: Random) -> None:
    rule = _package(model, chance)[1].rules["alias_test"]
    has = ":spare" in rule.attributes["data"]
    rule.attributes["data"] = '[":alias"]' if has else '[":alias", ":spare"]'


@_kind("tag of a test")
def _tag(model: Model, chance: Random) -> None:
    tags = f'["seconds:{model.serial}", "covers:{model.new_name("a.b")}"]'
    _test(model, chance)[2].attributes["tags"] = tags


@_kind("tag of a library")
def _library_tag(model: Model, chance: Random) -> None:
    target = chance.choice(["lib", "data", "made", "joined"])
    rule = _package(model, chance)[1].rules[target]
    rule.attributes["tags"] = f'["{model.new_name("t")}"]'


@_kind("target added")
def _added(model: Model, chance: Random) -> None:
    package = _package(model, chance)[1]
    package.rules[model.new_name("new_test")] = Rule("checked", {"data": '[":data"]'})


@_kind("target deleted")
def _deleted(model: Model, chance: Random) -> None:
    package = _package(model, chance)[1]
    for name in [name for name in package.rules if name.startswith("new_test")][:1]:
        del package.rules[name]


@_kind("target renamed")
def _renamed(model: Model, chance: Random) -> None:
    package = _package(model, chance)[1]
    names = [name for name in package.rules if name.startswith("new_test")] or ["folder_test"]
    rule = package.rules.pop(names[0])
    package.rules[model.new_name("new_test") if names[0] != "folder_test" else names[0]] = rule


@_kind("file added to a glob")
def _glob_add(model: Model, chance: Random) -> None:
    model.files[f"{_package(model, chance)[0]}/parts/{model.new_name('n')}.txt"] = "new\n"


@_kind("file removed from a glob")
def _glob_remove(model: Model, chance: Random) -> None:
    name = _package(model, chance)[0]
    found = sorted(p for p in model.files if p.startswith(f"{name}/parts/") and p.endswith(".txt"))
    if len(found) > 1:
        del model.files[chance.choice(found)]


@_kind("file moved")
def _moved(model: Model, chance: Random) -> None:
    name, package = _package(model, chance)
    path = f"{model.new_name('moved')}.txt"
    old = package.rules["page"].attributes["srcs"].strip('["]')
    model.files[f"{name}/{path}"] = model.files.pop(f"{name}/{old}")
    package.rules["page"].attributes["srcs"] = f'["{path}"]'


@_kind("BUILD file added or removed below a glob")
def _inner_build(model: Model, chance: Random) -> None:
    name = f"{_package(model, chance)[0]}/inner"
    if name in model.packages:
        del model.packages[name]
    else:
        model.packages[name] = Package()


@_kind("file in a folder label")
def _folder(model: Model, chance: Random) -> None:
    model.files[f"{_package(model, chance)[0]}/folder/{model.new_name('n')}.txt"] = "new\n"


@_kind("macro edit that changes nothing")
def _macro_nothing(model: Model, chance: Random) -> None:
    model.macros = model.macros.replace(
        "    native.sh_test(", f"    _ = {chance.randint(0, 10**6)}\n    native.sh_test("
    )


@_kind("macro edit that changes one expansion")
def _macro_one(model: Model, chance: Random) -> None:
    name = _test(model, chance)[1]
    more = f'    args = args + (["{model.new_name("m")}"] if name == "{name}" else [])\n'
    model.macros = model.macros.replace("    native.sh_test(", f"{more}    native.sh_test(")


@_kind("rule implementation edit")
def _rule_edit(model: Model, chance: Random) -> None:
    model.word += 1


@_kind("comment in a rule")
def _rule_comment(model: Model, chance: Random) -> None:
    model.rules += f"\n# {model.new_name('comment ')}\n"


@_kind("unused helper beside a rule")
def _rule_helper(model: Model, chance: Random) -> None:
    name = model.new_name("helper")
    model.rules += f"\ndef {name}():\n    return 1\n"


@_kind("rule refactored to the same result", deliberate=True)
def _rule_refactored(model: Model, chance: Random) -> None:
    model.rules = model.rules.replace(
        "    _shell(ctx, out, [WORD])",
        f"    _{model.new_name('v')} = 1\n    _shell(ctx, out, [WORD])",
    )


@_kind("unused .bzl added")
def _unused_bzl(model: Model, chance: Random) -> None:
    model.files[f"{model.new_name('unused')}.bzl"] = "X = 1\n"


@_kind("alias retargeted")
def _alias(model: Model, chance: Random) -> None:
    attributes = _package(model, chance)[1].rules["alias"].attributes
    attributes["actual"] = '":spare"' if attributes["actual"] == '":data"' else '":data"'


@_kind("package group")
def _group(model: Model, chance: Random) -> None:
    attributes = _package(model, chance)[1].rules["friends"].attributes
    attributes["packages"] = f'["//...", "//{model.new_name("q")}"]'


@_kind("visibility")
def _visibility(model: Model, chance: Random) -> None:
    rule = _package(model, chance)[1].rules[chance.choice(["data", "lib", "chosen"])]
    if rule.attributes.pop("visibility", None) is None:
        rule.attributes["visibility"] = '["//:__subpackages__"]'


@_kind("deprecation")
def _deprecation(model: Model, chance: Random) -> None:
    rule = _package(model, chance)[1].rules["data"]
    rule.attributes["deprecation"] = f'"{model.new_name("old ")}"'


@_kind("executable bit", deliberate=True)
def _executable(model: Model, chance: Random) -> None:
    model.executable ^= {f"{_package(model, chance)[0]}/data.txt"}


@_kind("link retargeted")
def _link(model: Model, chance: Random) -> None:
    path = f"{_package(model, chance)[0]}/link.txt"
    model.links[path] = "cpu.txt" if model.links[path] == "data.txt" else "data.txt"


@_kind("WORKSPACE comment")
def _workspace(model: Model, chance: Random) -> None:
    model.workspace.append(f"# {model.new_name('comment ')}")


@_kind("unused repository")
def _repository(model: Model, chance: Random) -> None:
    name = model.new_name("third")
    model.files[f"vendor/{name}/WORKSPACE"] = ""
    model.files[f"vendor/{name}/BUILD"] = ""
    model.files[".bazelignore"] = "vendor\n"
    model.workspace.append(f'local_repository(name = "{name}", path = "vendor/{name}")')


@_kind("option that matters")
def _option(model: Model, chance: Random) -> None:
    model.rc.append(f"test --test_env=A{model.serial}={model.new_name('v')}")


@_kind("option that does not matter")
def _idle_option(model: Model, chance: Random) -> None:
    model.rc.append(f"test --test_output={chance.choice(['errors', 'all', 'summary'])}")
    model.rc.append(f"build --jobs={chance.randint(2, 8)}")


@_kind("option of another config")
def _other_config(model: Model, chance: Random) -> None:
    model.rc.append(f"test:accelerated --test_env=B{model.serial}={model.new_name('v')}")


@_kind("comment in .bazelrc")
def _rc_comment(model: Model, chance: Random) -> None:
    model.rc.append(f"# {model.new_name('comment ')}")


@_kind("flag set by an option")
def _flag(model: Model, chance: Random) -> None:
    line = "build --//:accelerator=gpu"
    model.rc = [*model.rc, line] if line not in model.rc else [r for r in model.rc if r != line]


@_kind("branch of a select")
def _branch(model: Model, chance: Random) -> None:
    _append(model, f"{_package(model, chance)[0]}/{chance.choice(['cpu', 'gpu'])}.txt")


@_kind("branch of a select in a BUILD file")
def _branch_value(model: Model, chance: Random) -> None:
    rule = _package(model, chance)[1].rules["chosen"]
    has = '"gpu.txt", "spare.txt"' in rule.attributes["srcs"]
    rule.attributes["srcs"] = (
        rule.attributes["srcs"].replace('"gpu.txt", "spare.txt"', '"gpu.txt"')
        if has
        else rule.attributes["srcs"].replace('"gpu.txt"', '"gpu.txt", "spare.txt"')
    )


@_kind("test suite")
def _suite(model: Model, chance: Random) -> None:
    attributes = _package(model, chance)[1].rules["suite"].attributes
    has = ":made_test" in attributes["tests"]
    attributes["tests"] = '[":lib_test"]' if has else '[":lib_test", ":made_test"]'


@_kind("package() settings")
def _settings(model: Model, chance: Random) -> None:
    _package(model, chance)[1].settings["features"] = f'["{model.new_name("f")}"]'


@_kind("package added")
def _package_added(model: Model, chance: Random) -> None:
    name = model.new_name("extra")
    rule = Rule("checked", {"data": f'["//{_package(model, chance)[0]}:data"]'})
    model.packages[name] = Package({"one_test": rule})
    model.files[f"{name}/check.sh"] = CHECK


@_kind("package deleted")
def _package_deleted(model: Model, chance: Random) -> None:
    for name in [name for name in model.packages if name.startswith("extra")][:1]:
        del model.packages[name]
        del model.files[f"{name}/check.sh"]


@_kind("generated file")
def _generated(model: Model, chance: Random) -> None:
    rule = _package(model, chance)[1].rules["made"]
    rule.attributes["cmd"] = f'"(cat $<; echo {model.new_name("g")}) > $@"'


@_kind("generated file that comes out the same", deliberate=True)
def _generated_same(model: Model, chance: Random) -> None:
    rule = _package(model, chance)[1].rules["made"]
    rule.attributes["cmd"] = f'": {model.new_name("g")}; {rule.attributes["cmd"][1:]}'


@_kind("documentation")
def _documentation(model: Model, chance: Random) -> None:
    model.files["notes.md"] += "more\n"


@_kind("ignored file")
def _ignored(model: Model, chance: Random) -> None:
    model.files[f"{_package(model, chance)[0]}/{model.new_name('x')}.ignored"] = "x\n"
