"""What the comparison with another encoder lets pass, and what it finds."""

import numpy as np
import pytest

from testing.crosscheck.differences import Differences
from testing.oracles.codecs.grid import Codes

WANT: Codes = np.array([[0x12, 0x92, 0x00, 0x7F]], np.uint8)
NEAR = np.array([[True, True, False, False]])


def findings(got: list[int]) -> list[str]:
    differences = Differences("an encoder")
    differences.codes("codes", np.array([got], np.uint8), WANT, NEAR, sign=0x80)
    return differences.findings


def test_one_step_on_a_near_tie_is_right_and_counted() -> None:
    differences = Differences("an encoder")
    got: Codes = np.array([[0x13, 0x91, 0x00, 0x7F]], np.uint8)
    differences.codes("codes", got, WANT, NEAR, sign=0x80)
    differences.require()
    assert differences.figures() == {
        "encoder": "an encoder",
        "compared": 4,
        "near_ties": 2,
        "other_code": 2,
    }


@pytest.mark.parametrize(
    ("got", "finding"),
    [
        ([0x14, 0x92, 0x00, 0x7F], "(0, 0): 0x14, wanted 0x12"),
        ([0x12, 0x12, 0x00, 0x7F], "(0, 1): 0x12, wanted 0x92"),
        ([0x12, 0x13, 0x00, 0x7F], "(0, 1): 0x13, wanted 0x92"),
        ([0x12, 0x92, 0x01, 0x7F], "(0, 2): 0x01, wanted 0x00"),
        ([0x12, 0x92, 0x80, 0x7F], "(0, 2): 0x80, wanted 0x00"),
    ],
    ids=["two steps", "the sign", "the sign and a step", "off a tie", "minus zero"],
)
def test_any_other_difference_is_found(got: list[int], finding: str) -> None:
    (found,) = findings(got)
    assert finding in found


def test_a_scale_may_be_the_other_right_one_only() -> None:
    other: Codes = np.array([[0x13, 0x91, 0x00, 0x7F]], np.uint8)
    differences = Differences("an encoder")
    differences.scales("scales", other, WANT, NEAR, other)
    differences.require()
    differences.scales("scales", WANT - 1, WANT, NEAR, other)
    with pytest.raises(AssertionError, match="an encoder:\nscales: 3 of 4 differ off ties"):
        differences.require()
