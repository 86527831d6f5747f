"""Findings name the request, heads, tokens and page offsets where an output is off."""

import numpy as np
import pytest

from testing.harness.attention.rows import RowLabels, check_rows, joined_noise
from testing.harness.checks import Checked
from testing.oracles.arrays import Float64
from testing.oracles.attention.arithmetic import FLOAT32
from testing.oracles.attention.dense import Request, Rule, attend
from testing.oracles.attention.error_model import attention_noise
from testing.oracles.attention.scores import RowComparison
from testing.oracles.rounding import BF16, round_to

RULE = Rule(4, 2, 0.125)
QUERIES, KEYS = (5, 1, 12), (21, 33, 12)


def outputs() -> tuple[Float64, RowComparison, RowLabels]:
    rng = np.random.default_rng(11)
    found = []
    for queries, keys in zip(QUERIES, KEYS, strict=True):
        q, k, v = (rng.standard_normal(s) for s in ((queries, 4, 64), (keys, 2, 64), (keys, 2, 64)))
        found.append(attend(Request(round_to(2 * q, BF16), round_to(k, BF16), v), RULE))
    exact = np.concatenate([a.output for a in found])
    noise = joined_noise([attention_noise(a, FLOAT32, BF16) for a in found])
    places = [p for q, k in zip(QUERIES, KEYS, strict=True) for p in range(k - q, k)]
    labels = RowLabels.of(QUERIES, places, 4, 2, 4)
    return (
        exact,
        RowComparison(round_to(exact, BF16), exact, noise, BF16, labels.families()),
        labels,
    )


def check(got: Float64) -> Checked:
    _, comparison, labels = outputs()
    return check_rows(
        RowComparison(got, comparison.exact, comparison.noise, BF16, comparison.places), labels
    )


def test_a_right_output_has_no_findings() -> None:
    _, right, labels = outputs()
    checked = check_rows(right, labels)
    assert checked.findings == []
    assert checked.statistics["gain"] == pytest.approx(1, abs=1e-6)
    assert checked.statistics["outside"] == 0
    assert {"z_request", "z_head", "z_kv_head", "z_token", "z_offset"} <= checked.statistics.keys()


def test_nan_is_named_by_request_heads_and_tokens() -> None:
    _, right, _ = outputs()
    got = right.got.copy()
    got[5, 2, 7] = np.nan
    got[8:11, :, 3] = np.inf
    places = [(f.family, f.place) for f in check(got).findings]
    assert places == [
        ("finite", "request 1, head 2, all tokens"),
        ("finite", "request 2, all heads, tokens 2, 3, 4"),
    ]


def test_an_element_is_named() -> None:
    _, right, _ = outputs()
    got = right.got.copy()
    got[2, 1, 9] += 0.5
    (element,) = [f for f in check(got).findings if f.family == "element"]
    assert element.place == "request 0, head 1, token 2"
    assert "at request 0, token 2 at position 18, head 1, element 9" in element.message


@pytest.mark.parametrize(
    ("family", "place", "rows", "heads"),
    [
        ("request", "request 1", [5], slice(None)),
        ("head", "head 3", slice(None), [3]),
        ("kv_head", "kv head 0", slice(None), [0, 1]),
        ("token", "request 2, token 4 at position 4", [10], slice(None)),
    ],
)
def test_a_gain_is_named(
    family: str, place: str, rows: list[int] | slice, heads: list[int] | slice
) -> None:
    exact, _, _ = outputs()
    gain = np.ones(exact.shape[:2])
    gain[rows, heads] = 1.01
    findings = check(round_to(exact * gain[..., None], BF16)).findings
    assert (family, place) in {(f.family, f.place) for f in findings}


def test_a_gain_of_everything_is_one_finding_and_elements() -> None:
    exact, _, _ = outputs()
    findings = check(round_to(exact * 1.001, BF16)).findings
    assert {f.family for f in findings} == {"gain", "element"}
    assert findings[0].value == pytest.approx(1.001, abs=3e-4)
