from __future__ import annotations

import json
import re
from typing import Any

from tools.plumb.cells.read import model_of
from tools.plumb.coverage import as_json
from tools.plumb.coverage.made_up import LINEAR, SOURCE, small_graph
from tools.plumb.coverage.matrix import build
from tools.plumb.coverage.page.render import render
from tools.plumb.coverage.select import Wanted, select

MODEL = model_of(small_graph())


def content(name: str = "the working tree", problems: tuple[str, ...] = ()) -> dict[str, Any]:
    return as_json.content(build(MODEL, select(MODEL, Wanted())), name, problems, lambda _: SOURCE)


def test_the_page_loads_nothing() -> None:
    page = render(content())

    assert not re.search(r"(src|href)\s*=|@import|url\(|https?:", page)
    assert "default-src 'none'" in page


def test_every_cell_is_there_without_any_script() -> None:
    page = render(content())

    assert page.count('<td class="cell">') == len(MODEL.cells)
    assert f'aria-label="{LINEAR} on sm100, per-commit: missing, only another architecture"' in page
    assert f'aria-label="{LINEAR} on sm90, per-commit: 2 tests, 25 seconds"' in page


def test_text_of_claims_is_text() -> None:
    page = render(content("</script><b>", ("<i>problem</i>",)))

    assert "<product>" not in page
    assert "&lt;product&gt;" in page
    assert "<i>problem" not in page
    assert page.count("</script>") == 2


def test_the_data_of_the_page_is_the_json() -> None:
    found = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', render(content())
    )

    assert found
    data = json.loads(found[1])
    assert data["lacks"].keys() >= {"nothing", "only_nightly"}
    assert {**data, "lacks": None} == {**content(), "lacks": None}


def test_bars_are_as_long_as_the_dearest_claim_allows() -> None:
    page = render(content())

    assert '<i class="all" style="width:100.0%">' in page
    assert '<i class="all" style="width:66.7%">' in page
    assert (
        "45 GPU-seconds of tests that cover it, 45 of them of tests that cover nothing else" in page
    )


def test_problems_stand_at_the_top() -> None:
    assert "1 declarations contradict themselves" in render(content(problems=("odd",)))
    assert "contradict" not in render(content())
