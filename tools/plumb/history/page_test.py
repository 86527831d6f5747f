"""The page of plots: every run is a point of it, and nothing in it comes from elsewhere."""

import re
import xml.etree.ElementTree as ET

import pytest

from tools.plumb.history.page import render
from tools.plumb.history.summary import Run

DAY = 86_400_000


def run(label: str, day: int, ms: int = 1000, status: str = "PASSED") -> Run:
    return Run(label, "cpu", day * DAY, ms, status, 1, 1)


RUNS = [
    run("//a:t", 1, 2000),
    run("//a:t", 2, 4000, "FLAKY"),
    run("//a:t", 3, 1000, "TIMEOUT"),
    run('//b:<x>&"y"', 2),
]


@pytest.fixture(scope="module")
def html() -> str:
    return render(RUNS, {"//a:t": 8}, "Test history")


def test_each_run_is_a_point_of_its_status(html: str) -> None:
    assert re.findall(r'<circle [^>]*class="(\w+)"', html) == ["PASSED", "FLAKY", "bad", "PASSED"]
    assert "1970-01-03 00:00: 4.0 s, FLAKY" in html


def test_height_is_seconds_and_the_declared_line_is_among_them(html: str) -> None:
    # 40 pixels, a margin of 4 on both sides, up to the declared 8 s: 2 s lie 8 above the ground.
    svg = ET.fromstring(re.findall(r"<svg .*?</svg>", html, re.S)[0])
    assert [circle.get("cy") for circle in svg.findall("circle")] == ["28.0", "20.0", "32.0"]
    assert [line.get("y1") for line in svg.findall("line")] == ["4.0"]


def test_days_show_their_share_of_flaky_and_failed_runs(html: str) -> None:
    assert "1970-01-03: 2 runs, 50.0 % flaky, 0.0 % failed" in html
    assert "1970-01-04: 1 runs, 0.0 % flaky, 100.0 % failed" in html


def test_labels_are_escaped_and_nothing_is_fetched(html: str) -> None:
    assert "//b:&lt;x&gt;&amp;&#34;y&#34;" in html and "<x>" not in html
    assert not re.search(r"(src|href)\s*=|url\(|@import|fetch\(", html)


def test_a_single_run_stands_in_the_middle() -> None:
    html = render([run("//a:t", 1)], {}, "t")
    assert re.findall(r'<circle cx="([\d.]+)"', html) == ["110.0"]
