"""A test sees what its target declares, in a sandbox and on a remote worker, and nothing beside it.

This target declares nothing; the runner brings pytest, no numpy, and a few sources of this folder.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# What //testing/harness:runner and this target bring of the folder's twenty sources.
DECLARED = {"__init__", "backend_table", "gpu_slot", "isolation_test", "kernel_cache", "main"}


def action_root() -> Path:
    """The folder that Bazel gave this action: the one that holds bazel-out."""
    for folder in Path(os.environ["RUNFILES_DIR"]).parents:
        if folder.name == "bazel-out":
            return folder.parent
    pytest.fail(f"no bazel-out above {os.environ['RUNFILES_DIR']}")


def files_below(folder: Path) -> Iterator[Path]:
    """Each file below `folder`; links to folders, which wheels are, are not followed."""
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names)


def is_importable(name: str) -> bool:
    """Whether a module of that name would be found."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_files_that_are_not_declared_lie_nowhere_in_the_actions_folder() -> None:
    seen = {(path.parent.name, path.stem) for path in files_below(action_root())}

    assert ("harness", "isolation_test") in seen
    sources = {stem for folder, stem in seen if folder == "harness"}
    assert sources <= {*DECLARED, "isolation_test.runfiles_manifest"}
    names = {stem for _, stem in seen}
    assert not {"BUILD", "WORKSPACE", "defs", "pyproject", "requirements"} & names


def test_undeclared_modules_are_not_found() -> None:
    assert is_importable("testing.harness.gpu_slot")
    for name in ("testing.harness.records", "layers.parameter", "tools.pip.lock"):
        assert not is_importable(name), name


def test_undeclared_wheels_are_not_found() -> None:
    assert is_importable("pytest")
    if not any("/pip_pytest/" in path or len(Path(path).name) == 64 for path in sys.path):
        pytest.skip("packages come from this python (--config=image): all that it holds")

    # The interpreter that pip installs the wheels with may hold any of these itself.
    for name in ("numpy", "torch", "scipy", "pip", "setuptools"):
        assert not is_importable(name), name
