"""Each query of testing/README.md, run as a reader would run it."""

import re
import shlex
from pathlib import Path

import pytest

from testing.graph.bazel import Graph

README = Path(__file__).parents[1] / "README.md"
QUERIES: dict[str, str] = dict(
    re.findall(
        r"^### (\d+)\..*?```sh\ntools/bazel query (.*?)\n```", README.read_text(), re.M | re.S
    )
)
CHANNEL = "//testing/quant/int8:channel_linear_test"
BLOCK = "//testing/quant/int8:block_linear_test"

# Labels that the answer to each must hold, and labels that it must not hold.
EXPECTED: dict[str, tuple[set[str], set[str]]] = {
    "1": ({f"{CHANNEL}_cpu", f"{CHANNEL}_h100"}, {"//testing/oracles:int8_test"}),
    "2": ({f"{CHANNEL}_h100"}, {f"{CHANNEL}_cpu"}),
    # Nothing is guarded by night only, so far.
    "3": (set(), {f"{CHANNEL}_cpu"}),
    "4": (
        {f"{CHANNEL}_cpu"},
        {f"{BLOCK}_cpu", "//testing/oracles:int8_test"},
    ),
    "5": (
        {f"{CHANNEL}_cpu", "//layers/kernels:int8_scaled_mm"},
        {"//layers/kernels:int8_block_scaled_mm"},
    ),
    "6": (set(), {"//testing/oracles:int8"}),
    "7": ({f"{CHANNEL}_h100"}, {f"{CHANNEL}_cpu"}),
    "8": ({"//testing/distributed:tensor_parallel_linear_test_h100"}, {f"{CHANNEL}_h100"}),
    "9": ({f"{CHANNEL}_h100"}, {"//testing/oracles:int8_test", f"{BLOCK}_h100"}),
    "10": (set(), {"//layers/linear:column", "//layers/quantization:w8a8_int8"}),
}


# A query whose right answer is empty, changed so that it has to find something.
CONTROLS = {
    "3": ("cadence:nightly", "cadence:per-commit", f"{CHANNEL}_cpu"),
    "6": ("//testing/oracles/...", "//testing/quant/...", "//layers/"),
    "10": ("deps(tests(//testing/...))", "deps(//testing/oracles/...)", "//layers/linear:column"),
}


def test_the_readme_gives_ten_queries() -> None:
    assert sorted(QUERIES, key=lambda number: int(number)) == [
        str(number) for number in range(1, 11)
    ]


@pytest.mark.parametrize("number", EXPECTED)
def test_a_query_of_the_readme_answers(graph: Graph, number: str) -> None:
    wanted, unwanted = EXPECTED[number]

    found = set(graph.query(*shlex.split(QUERIES[number])))

    assert wanted <= found
    assert not unwanted & found


@pytest.mark.parametrize("number", CONTROLS)
def test_a_query_that_finds_nothing_could_find_something(graph: Graph, number: str) -> None:
    was, instead, wanted = CONTROLS[number]
    assert was in QUERIES[number]

    found = graph.query(*shlex.split(QUERIES[number].replace(was, instead)))

    assert any(label.startswith(wanted) for label in found)


def test_no_oracle_reaches_a_layer(graph: Graph) -> None:
    assert graph.query(*shlex.split(QUERIES["6"])) == []
