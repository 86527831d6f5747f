"""Data flows tools → testing → layers and never back, and an oracle shares no code with a layer."""

import pytest

from testing.graph.bazel import Graph

PACKAGES = ("flashinfer_python", "sglang_kernel", "torch", "triton")
KERNELS = " + ".join(f"//tools/pip:{package}" for package in PACKAGES)
# Not triton, which torch depends on.
KERNELS_BUT_TORCH = "//tools/pip:flashinfer_python + //tools/pip:sglang_kernel"


@pytest.mark.parametrize(
    "path",
    [
        "somepath(//testing/oracles/..., //layers/...)",
        # Reference models are trained, and so are of torch; their imports are read one by one.
        f"somepath(//testing/oracles/... except //testing/oracles/models/..., {KERNELS})",
        f"somepath(//testing/oracles/models/..., {KERNELS_BUT_TORCH})",
        "somepath(//layers/..., //testing/...)",
        "somepath(//layers/..., //tools/... except //tools/pip/...)",
        "somepath(//testing/..., //tools/... except //tools/pip/...)",
    ],
)
def test_no_path_leads_the_wrong_way(graph: Graph, path: str) -> None:
    found = graph.query("--order_output=full", path)

    assert not found, "a dependency leads the wrong way; cut it at one of: " + " → ".join(found)


def test_a_path_that_exists_is_found(graph: Graph) -> None:
    found = graph.query("somepath(//testing/quant/..., //layers/...)")

    assert any(label.startswith("//testing/quant") for label in found)
    assert any(label.startswith("//layers") for label in found)


def test_every_oracle_is_declared_as_one(graph: Graph) -> None:
    # oracle_library refuses layers and kernels by label; a plain py_library would not.
    libraries = "kind(py_library, //testing/oracles/...)"

    assert graph.query(f'{libraries} except attr(tags, "\\boracle\\b", {libraries})') == []


def test_every_oracle_is_read_for_foreign_imports(graph: Graph) -> None:
    sources = 'kind("source file", labels(srcs, //testing/oracles/...))'
    read = "deps(//testing/oracles:imports_test)"

    assert graph.query(f"{sources} except {read}") == []


def test_no_target_lists_an_init_file(graph: Graph) -> None:
    # Bazel puts an empty __init__.py into the sandbox of each test. In one that it uses again after
    # a test that did list the file, it writes through that test's link: the checkout's own file is
    # emptied. .bazelrc turns that off, and a user's own settings may turn it on again.
    assert graph.query('filter("/?__init__\\.py$", kind("source file", //...:*))') == []
