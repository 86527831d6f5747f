"""What the configs of .bazelrc choose, asked of this checkout."""

from pathlib import Path

import pytest

from testing.graph.bazel import Graph

GPU_PACKAGES = "//tools/pip:flashinfer_python + //tools/pip:sglang_kernel + //tools/pip:triton"
# `image` holds all packages already, so that asking downloads none.
A_TEST = 'name = "a_test", srcs = ["a_test.py"], covers = ["quant.int8.linear.loader"]'
ALL_TESTS = "deps(tests(//testing/...))"


def configured(graph: Graph, *flags: str) -> set[str]:
    found = graph.cquery("--config=image", *flags, f"({ALL_TESTS}) intersect ({GPU_PACKAGES})")
    return {line.split(" ")[0] for line in found}


def test_a_cpu_run_needs_no_gpu_package(graph: Graph) -> None:
    assert configured(graph) == set()


def test_a_gpu_run_needs_the_kernels(graph: Graph) -> None:
    found = configured(graph, "--//tools/pip:accelerator=gpu")

    assert {"//tools/pip:sglang_kernel", "//tools/pip:triton"} <= found


def test_a_value_that_a_flag_does_not_take_is_refused(graph: Graph) -> None:
    with pytest.raises(AssertionError, match=r"accelerator=tpu: wanted one of gpu, none"):
        configured(graph, "--//tools/pip:accelerator=tpu")


@pytest.mark.parametrize(
    ("declaration", "complaint"),
    [
        (
            f'layer_test({A_TEST}, pools = ["h10"], seconds = {{"h10": 5}}, deps = [])',
            "unknown pool 'h10': did you mean 'h100'?",
        ),
        (
            f'smoke_test({A_TEST}, pools = ["cpu"], seconds = {{"cpu": 5}}, deps = [])',
            "claim 'quant.int8.linear.loader' needs a test of level layer: use layer_test",
        ),
        (
            'unit_test(name = "a_test", srcs = ["a_test.py"], tags = ["h100"])',
            "tag 'h100' is written by the macro: use pools instead",
        ),
        (
            'unit_test(name = "a_test", srcs = ["a_test.py"], covers = ["nonsense"])',
            "covers is no argument of a unit_test",
        ),
        (
            'unit_test(name = "a_test", srcs = ["a_test.py"], cadence = "nightyl")',
            "unknown cadence 'nightyl': did you mean 'nightly'?",
        ),
        (
            'unit_test(name = "a_test", srcs = "a_test.py", seconds = 0)',
            'srcs = "a_test.py": wanted a list',
        ),
        (
            'oracle_library(name = "a", srcs = ["a.py"], deps = ["//layers/linear:base"])',
            "oracle_library a depends on //layers/linear:base: an oracle shares no code",
        ),
    ],
)
def test_a_wrong_declaration_stops_the_load(
    graph: Graph, tmp_path: Path, declaration: str, complaint: str
) -> None:
    package = tmp_path / "scratch"
    package.mkdir()
    macro = declaration.partition("(")[0]
    load = f'load("//testing:defs.bzl", "{macro}")\n'
    (package / "BUILD.bazel").write_text(load + declaration + "\n")

    with pytest.raises(AssertionError) as refused:
        graph.query(f"--package_path=%workspace%:{tmp_path}", "//scratch:all")

    assert complaint in str(refused.value)


def test_a_smoke_test_is_declared_for_its_pools(graph: Graph, tmp_path: Path) -> None:
    package = tmp_path / "smokes"
    package.mkdir()
    (package / "BUILD.bazel").write_text(
        'load("//testing/private:pool_test.bzl", "pool_test")\n'
        'pool_test(name = "a_test_h100", srcs = ["a_test.py"], pool = "h100", seconds = 70,'
        ' gpus = 2, level = "e2e", deps = [])\n'
    )

    (xml,) = graph.query(
        f"--package_path=%workspace%:{tmp_path}",
        "--output=streamed_jsonproto",
        "//smokes:a_test_h100",
    )

    assert '"stringValue":"eternal"' not in xml
    for expected in ('"long"', '"large"', '"gpus:2"', '"test.Pool"', '"level:e2e"'):
        assert expected in xml
