"""Edits of .bzl files: macros and rules."""

from __future__ import annotations

from random import Random

from tools.plumb.truth.edits.registry import any_test, kind
from tools.plumb.truth.model import Model


@kind("macro edit that changes nothing")
def _macro_nothing(model: Model, chance: Random) -> None:
    model.macros = model.macros.replace(
        "    native.sh_test(", f"    _ = {chance.randint(0, 10**6)}\n    native.sh_test("
    )


@kind("macro edit that changes one expansion")
def _macro_one(model: Model, chance: Random) -> None:
    name = any_test(model, chance)[1]
    more = f'    args = args + (["{model.new_name("m")}"] if name == "{name}" else [])\n'
    model.macros = model.macros.replace("    native.sh_test(", f"{more}    native.sh_test(")


@kind("rule implementation edit")
def _rule_edit(model: Model, chance: Random) -> None:
    model.word += 1


@kind("comment in a rule")
def _rule_comment(model: Model, chance: Random) -> None:
    model.rules += f"\n# {model.new_name('comment ')}\n"


@kind("unused helper beside a rule")
def _rule_helper(model: Model, chance: Random) -> None:
    name = model.new_name("helper")
    model.rules += f"\ndef {name}():\n    return 1\n"


@kind("rule refactored to the same result", beyond="its actions show it")
def _rule_refactored(model: Model, chance: Random) -> None:
    model.rules = model.rules.replace(
        "    _shell(ctx, out, [WORD])",
        f"    _{model.new_name('v')} = 1\n    _shell(ctx, out, [WORD])",
    )


@kind("unused .bzl added")
def _unused_bzl(model: Model, chance: Random) -> None:
    model.files[f"{model.new_name('unused')}.bzl"] = "X = 1\n"
