"""Edits of what steers Bazel: WORKSPACE and .bazelrc."""

from __future__ import annotations

from random import Random

from tools.plumb.truth.edits.registry import kind
from tools.plumb.truth.model import Model


@kind("WORKSPACE comment")
def _workspace(model: Model, chance: Random) -> None:
    model.workspace.append(f"# {model.new_name('comment ')}")


@kind("unused repository")
def _repository(model: Model, chance: Random) -> None:
    name = model.new_name("third")
    model.files[f"vendor/{name}/WORKSPACE"] = ""
    model.files[f"vendor/{name}/BUILD"] = ""
    model.files[".bazelignore"] = "vendor\n"
    model.workspace.append(f'local_repository(name = "{name}", path = "vendor/{name}")')


@kind("option that matters")
def _option(model: Model, chance: Random) -> None:
    model.rc.append(f"test --test_env=A{model.serial}={model.new_name('v')}")


@kind("option that does not matter")
def _idle_option(model: Model, chance: Random) -> None:
    model.rc.append(f"test --test_output={chance.choice(['errors', 'all', 'summary'])}")
    model.rc.append(f"build --jobs={chance.randint(2, 8)}")


@kind("option of another config")
def _other_config(model: Model, chance: Random) -> None:
    model.rc.append(f"test:accelerated --test_env=B{model.serial}={model.new_name('v')}")


@kind("comment in .bazelrc")
def _rc_comment(model: Model, chance: Random) -> None:
    model.rc.append(f"# {model.new_name('comment ')}")


@kind("flag set by an option")
def _flag(model: Model, chance: Random) -> None:
    line = "build --//:accelerator=gpu"
    model.rc = [*model.rc, line] if line not in model.rc else [r for r in model.rc if r != line]
