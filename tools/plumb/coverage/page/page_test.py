"""The page of coverage in a real browser: search, filters, keys, the chain to a test's source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tools.browser.browser import started
from tools.plumb.cells.made_up import large_graph
from tools.plumb.cells.model import Model
from tools.plumb.cells.read import model_of
from tools.plumb.coverage import as_json
from tools.plumb.coverage.made_up import LINEAR, LOADER, SERVE, SOURCE, small_graph
from tools.plumb.coverage.matrix import build
from tools.plumb.coverage.page.render import render
from tools.plumb.coverage.select import Wanted, select


def write(model: Model, file: Path) -> str:
    content = as_json.content(
        build(model, select(model, Wanted())), "a workspace", model.problems, lambda _: SOURCE
    )
    file.write_text(render(content))
    return file.as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(model_of(small_graph()), tmp_path_factory.mktemp("page") / "coverage.html")


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(5000)
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda said: failures.append(said.text) if said.type == "error" else None)
    page.on(
        "request", lambda asked: failures.append(asked.url) if asked.url[:4] != "file" else None
    )
    page.goto(address)
    yield page
    page.close()
    assert failures == []


def shown(page: Page) -> list[str]:
    return [row.get_attribute("data-claim") or "" for row in page.locator("tbody tr:visible").all()]


def cell(page: Page, claim: str, arch: str, cadence: str) -> str:
    return f'tr[data-claim="{claim}"] button[data-arch="{arch}"][data-cadence="{cadence}"]'


def test_every_claim_is_shown_at_first(page: Page) -> None:
    assert shown(page) == [LINEAR, LOADER, SERVE]
    expect(page.locator("#count")).to_have_text("3 claims")


@pytest.mark.parametrize(
    ("words", "claims"),
    [
        ("loader", [LOADER]),
        ("checkpoint's PRODUCT", [LINEAR]),
        ("d_test_h100", [LINEAR]),
        ("quant n_test", [LOADER]),
        ("nothing at all", []),
    ],
)
def test_search_looks_in_names_sentences_and_tests(
    page: Page, words: str, claims: list[str]
) -> None:
    page.keyboard.press("/")
    page.keyboard.type(words)

    assert shown(page) == claims
    expect(page.locator("#count")).to_have_text(f"{len(claims)} of 3 claims")
    assert page.locator("#nothing").is_visible() is (not claims)


def test_all_can_be_shown_again(page: Page) -> None:
    page.fill("#search", "nothing at all")
    page.click("#reset")

    assert len(shown(page)) == 3


def test_filters_take_claims_by_their_cells(page: Page) -> None:
    page.select_option("#state", "missing")
    page.select_option("#arch", "sm90")

    assert shown(page) == [LOADER, SERVE]
    page.select_option("#level", "e2e")
    assert shown(page) == [SERVE]


def test_a_reason_takes_its_cells(page: Page) -> None:
    page.click("text=only nightly >> visible=true >> nth=0")

    assert shown(page) == [LOADER]
    assert page.locator(".reason[aria-pressed=true]").count() == 1


@pytest.mark.parametrize("key", ["gpu", "missing"])
def test_claims_are_sorted_by_what_they_cost_or_lack(
    browser: Browser, tmp_path: Path, key: str
) -> None:
    page = browser.new_page()
    page.goto(write(model_of(large_graph(14, 80)), tmp_path / "page.html"))
    figures = f"[...document.querySelectorAll('tbody tr')].map((row) => +row.dataset.{key})"
    unsorted = page.evaluate(figures)

    page.select_option("#sort", key)

    found = page.evaluate(figures)
    assert found == sorted(unsorted, reverse=True) != unsorted
    page.select_option("#sort", "name")
    assert page.evaluate(figures) == unsorted
    page.close()


def test_a_bar_is_as_long_as_its_share_of_the_dearest(page: Page) -> None:
    bars = [row.bounding_box() for row in page.locator(".rail .all").all()]

    assert [round(box["width"]) for box in bars if box] == [110, 73]


def test_a_cell_leads_to_the_line_of_its_test(page: Page) -> None:
    page.click(cell(page, LINEAR, "cpu", "per-commit"))

    dialog = page.locator("#detail")
    assert dialog.locator(".chain").first.locator("li").all_inner_texts() == [
        f"{LINEAR} //testing/claims:{LINEAR}",
        "//quant:a_test_cpu quant/BUILD.bazel:7",
        "quant/a_test_cpu.py:8 test_products",
    ]
    dialog.locator("summary").click()
    assert "quant/a_test_cpu.py:12 test_rows" in dialog.inner_text()


def test_a_missing_cell_says_why_and_what_would_cover_it(page: Page) -> None:
    page.click(cell(page, LOADER, "sm90", "per-commit"))

    said = page.locator("#detail").inner_text()
    assert "missing: only nightly" in said
    assert f'covers = ["{LOADER}"]' in said
    lacking = page.locator("#detail .test").first
    assert "//quant:n_test_h100" in lacking.inner_text()
    assert lacking.locator(".lack").all_inner_texts() == ["only nightly"]


def test_the_keyboard_is_enough(page: Page) -> None:
    page.focus("#sort")
    page.keyboard.press("Tab")
    focused = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(focused).startswith(f"{LINEAR} on cpu, per-commit")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused).startswith(f"{LINEAR} on sm90, per-commit")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused).startswith(f"{LOADER} on sm90, per-commit")
    page.keyboard.press("Enter")
    expect(page.locator("#detail")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#detail")).to_be_hidden()
    assert page.evaluate(focused).startswith(f"{LOADER} on sm90, per-commit")


def test_a_cell_has_an_address(page: Page, address: str) -> None:
    page.click(cell(page, LOADER, "sm90", "nightly"))
    link = page.url
    assert link == f"{address}#{LOADER}/sm90/nightly"

    page.goto("about:blank")
    page.goto(link)

    expect(page.locator("#detail h2")).to_have_text(LOADER)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(browser: Browser, address: str, scheme: str) -> None:
    page = browser.new_page(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(address)

    for selector in (
        ".name",
        ".sentence",
        ".covered .note",
        ".missing .note",
        ".extra .note",
        "dt",
    ):
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector
    page.close()


@pytest.mark.parametrize("width", [320, 390, 768, 1024, 1440])
def test_nothing_runs_out_of_a_narrow_window(browser: Browser, address: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(address)

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click(f'tr[data-claim="{LINEAR}"] button[data-arch="cpu"]')
    assert page.evaluate("document.querySelector('#detail').scrollWidth") <= width
    page.close()


def test_two_thousand_cells_are_searched_while_one_types(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page()
    page.goto(write(model_of(large_graph(613, 2000)), tmp_path / "large.html"))
    assert page.locator(".cell button").count() >= 2000

    # The median of five, of the script's own work: a page that lags is ten times slower.
    taken = page.evaluate(
        """() => [1, 2, 3, 4, 5].map((i) => {
             const begin = performance.now();
             document.getElementById("search").value = `claim${i}`;
             document.getElementById("search").dispatchEvent(new Event("input"));
             return performance.now() - begin;
           }).sort((a, b) => a - b)[2]"""
    )
    page.close()

    assert taken < 1000


# WCAG's contrast of a text with what is behind it.
CONTRAST = """(selector) => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = (rgb) => {
    const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let element = document.querySelector(selector);
  const ink = parse(getComputedStyle(element).color).slice(0, 3);
  let ground = [];
  for (; element; element = element.parentElement) {
    const colour = parse(getComputedStyle(element).backgroundColor);
    if (colour.length === 3 || colour[3] > 0.99) { ground = colour.slice(0, 3); break; }
  }
  const [high, low] = [light(ink), light(ground)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}"""
