"""Oracles import nothing but numerical packages and one another, not even inside a function."""

import ast
import sys
from collections.abc import Set
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ALLOWED = {*sys.stdlib_module_names, "ml_dtypes", "numpy", "pytest", "scipy"}
# Reference models are trained, and so are of torch; of its kernels they use none but arithmetic.
MODELS = FOLDER / "models"
OF_TORCH = {"torch", "torch.nn.functional"}


def foreign_imports(source: str, also: Set[str] = frozenset()) -> list[str]:
    """What a module imports that no oracle may, wherever it stands in the code."""
    return [name for name in _unknown_imports(source) if name not in also]


def _unknown_imports(source: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if not is_allowed(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            found += [name for name in names_of(node) if not is_allowed(name)]
        elif isinstance(node, ast.Call) and called(node) in ("__import__", "import_module"):
            found.append(f"{called(node)}(…)")
    return found


def names_of(node: ast.ImportFrom) -> list[str]:
    if node.level:
        return ["." * node.level + (node.module or "")]
    if node.module == "testing":
        return [f"testing.{alias.name}" for alias in node.names]
    return [node.module or ""]


def is_allowed(name: str) -> bool:
    if name == "testing.oracles" or name.startswith("testing.oracles."):
        return True
    package = name.split(".")[0]
    return package in ALLOWED and package != "importlib"


def called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


SOURCES = sorted(FOLDER.rglob("*.py"))


def test_the_oracles_are_here_to_be_read() -> None:
    # //testing/graph:independence_test sees that no package is left out of this target's data.
    names = {str(path.relative_to(FOLDER)) for path in SOURCES}
    assert {"int8.py", "matmul.py", "statistics.py", "places.py", "codecs/nvfp4.py"} <= names
    assert len(names) > 30


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_an_oracle_imports_no_layer_and_no_kernel(path: Path) -> None:
    also = OF_TORCH if path.is_relative_to(MODELS) else frozenset()
    assert foreign_imports(path.read_text(), also) == []


def test_reference_models_take_torch_and_no_more_of_it() -> None:
    source = "import torch\nimport torch.nn.functional as F\nimport torch._inductor, layers.weights"
    assert foreign_imports(source, OF_TORCH) == ["torch._inductor", "layers.weights"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch", ["torch"]),
        ("import numpy as np, layers.sharding", ["layers.sharding"]),
        (
            "def f():\n    from layers.kernels.int8_scaled_mm import multiply_torch",
            ["layers.kernels.int8_scaled_mm"],
        ),
        ("if True:\n    import sgl_kernel as k", ["sgl_kernel"]),
        ("from testing import harness", ["testing.harness"]),
        ("from testing.harness.linear import build", ["testing.harness.linear"]),
        ("from ..harness import linear", ["..harness"]),
        ("import importlib", ["importlib"]),
        ("x = __import__('torch')", ["__import__(…)"]),
        ("def f(m):\n    return m.import_module('torch')", ["import_module(…)"]),
        ("import numpy.typing\nfrom testing.oracles import int8\nimport scipy.stats", []),
    ],
)
def test_an_import_out_of_place_is_found(source: str, found: list[str]) -> None:
    assert foreign_imports(source) == found
