from __future__ import annotations

import pytest

from tools.plumb.cells.made_up import graph_of, test_target
from tools.plumb.cells.read import model_of
from tools.plumb.coverage.made_up import LOADER, SERVE, small_graph
from tools.plumb.coverage.select import Selection, Wanted, select
from tools.plumb.errors import PlumbError

MODEL = model_of(small_graph())


def cells(selection: Selection) -> list[str]:
    return [str(cell) for cell in selection.cells]


def labels(selection: Selection) -> list[str]:
    return [test.label for test in selection.tests]


def test_without_filters_every_cell_and_covering_test_is_shown() -> None:
    found = select(MODEL, Wanted())

    assert cells(found) == [str(cell) for cell in MODEL.cells]
    assert "//other:plain_test" not in labels(found)
    assert len(found.tests) == 4


def test_claims_are_taken_by_glob() -> None:
    found = select(MODEL, Wanted(claims=("*.loader", "serve*")))

    assert {cell.claim for cell in found.cells} == {LOADER, SERVE}


def test_a_pool_takes_its_architecture_and_keeps_what_is_missing_there() -> None:
    found = select(MODEL, Wanted(pools=("h100",)))

    assert {cell.arch for cell in found.cells} == {"sm90"}
    assert f"{SERVE} on sm90, nightly" in cells(found)
    assert all(test.pool == "h100" for test in found.tests)


@pytest.mark.parametrize("pattern", ["//quant:n_test_h100", "n_test_*", "//quant:n*"])
def test_a_test_takes_what_it_covers_and_what_it_nearly_covers(pattern: str) -> None:
    found = select(MODEL, Wanted(tests=(pattern,)))

    assert cells(found) == [f"{LOADER} on sm90, per-commit", f"{LOADER} on sm90, nightly"]
    assert labels(found) == ["//quant:n_test_h100"]


@pytest.mark.parametrize(
    ("package", "wanted"),
    [
        ("//quant/...", 4),
        ("//quant", 3),
        ("quant/deep", 1),
        ("//quant/deep:all", 1),
        ("//...", 4),
    ],
)
def test_a_package_takes_its_tests(package: str, wanted: int) -> None:
    assert len(select(MODEL, Wanted(packages=(package,))).tests) == wanted


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            Wanted(claims=("quant.int8.liner",)),
            "no claim matches 'quant.int8.liner': did you mean quant.int8.linear",
        ),
        (Wanted(tests=("//quant:a_test_gpu",)), "no test matches '//quant:a_test_gpu': did you"),
        (Wanted(pools=("h10",)), "no test runs in pool 'h10': did you mean h100?"),
        (Wanted(packages=("//quan",)), "no test is in package '//quan': did you mean //quant"),
        (Wanted(suites=("base-b",)), "no suite matches 'base-b': known: none"),
        (
            Wanted(claims=(SERVE,), packages=("//quant/deep",)),
            "no cell is left: the filters together take no claim",
        ),
    ],
)
def test_what_takes_nothing_is_an_error(wanted: Wanted, message: str) -> None:
    with pytest.raises(PlumbError) as caught:
        select(MODEL, wanted)

    assert message in str(caught.value)


def test_a_workspace_without_tests_or_claims_is_an_error() -> None:
    with pytest.raises(PlumbError, match="the workspace has no tests"):
        select(model_of(graph_of()), Wanted())
    with pytest.raises(PlumbError, match="no test covers a claim"):
        select(model_of(graph_of(test_target("//a:t"))), Wanted())
