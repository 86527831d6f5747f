"""The table of modules beside what the wheels' own metadata says."""

import os
import re
from importlib import metadata
from pathlib import Path

import pytest

from tools.pip.lock import normalise
from tools.plumb.deps import policy
from tools.plumb.deps.packages import Packages

ROOT = Path(__file__).parents[3]
NAMES = re.findall(r'^    "(\w+)",$', (ROOT / "tools/pip/packages.bzl").read_text(), re.M)
POLICY = policy.parse((Path(__file__).parent / "policy.toml").read_text())
PACKAGES = Packages(frozenset(map(normalise, NAMES)), labels=POLICY.labels, imports=POLICY.imports)


def modules_of_wheel(name: str) -> set[str] | None:
    """What a package's record lists at its top that Python can import; None if it is not here."""
    try:
        files = metadata.distribution(name).files or []
    except metadata.PackageNotFoundError:
        return None
    parts = [file.parts for file in files if file.suffix in (".py", ".so")]
    # An extension with a digest for a name is none that one imports, nor is a second `test`.
    tops = {top[0].partition(".")[0] for top in parts if re.match(r"[A-Za-z_]", top[0])}
    return {top for top in tops if top.isidentifier()} - {"bin", "test"}


@pytest.mark.parametrize("name", NAMES)
def test_the_table_agrees_with_the_wheel(name: str) -> None:
    known = {module.partition(".")[0] for module in PACKAGES.modules(normalise(name))}

    found = modules_of_wheel(name)

    assert found is None or known <= found
    # What is private, nobody has to know.
    assert found is None or {module for module in found if module[0] != "_"} <= known


@pytest.mark.skipif("TEST_WORKSPACE" not in os.environ, reason="Bazel brings the wheels")
@pytest.mark.parametrize("name", ["mypy", "numpy", "pytest", "rich", "torch"])
def test_the_wheels_of_a_plain_run_are_there_to_compare_with(name: str) -> None:
    assert modules_of_wheel(name)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("//tools/pip:ml_dtypes", "ml-dtypes"),
        ("@pip//ml_dtypes:pkg", "ml-dtypes"),
        ("@pip_ml_dtypes//:pkg", "ml-dtypes"),
        ("@rules_python~~pip~pip//ml_dtypes:pkg", "ml-dtypes"),
        ("@rules_python++pip+pip_311_ml_dtypes//:pkg", "ml-dtypes"),
        ("//tools/pip:lock_library", None),
        ("//tools:torch", None),
        ("@other//torch:pkg", None),
    ],
)
def test_a_label_stands_for_a_package(label: str, name: str | None) -> None:
    assert PACKAGES.distribution(label) == name


def test_a_package_has_the_label_that_the_workspace_uses() -> None:
    assert PACKAGES.label("ml-dtypes", {"//tools/pip:ml_dtypes"}) == "//tools/pip:ml_dtypes"
    assert PACKAGES.label("torch", {"//tools/pip:ml_dtypes"}) is None
    assert PACKAGES.label("torch", {"@pip_numpy//:pkg"}) == "@pip_torch//:pkg"


def test_the_longest_module_decides_who_owns_an_import() -> None:
    names = {"protobuf", "google"}

    assert PACKAGES.owners("google.protobuf.message", names) == ["protobuf"]
    assert PACKAGES.owners("google.cloud", names) == ["google"]
    assert PACKAGES.owners("sgl_kernel", PACKAGES.locked) == ["sglang-kernel"]
    assert PACKAGES.owners("sgl_kernels", PACKAGES.locked) == []
