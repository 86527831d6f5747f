import datetime

import pytest

from tools.plumb.cells.model import Cell
from tools.plumb.errors import PlumbError
from tools.plumb.trim.waivers import Waiver, judge, parse

DAY = datetime.date(2027, 1, 31)
CELL = Cell("a.b", "sm90", "per-commit")
TEXT = """
[[waiver]]
cell = "a.b on sm90, per-commit"
reason = "measured nightly elsewhere"
owner = "kernels"
expires = 2027-01-31
"""


def test_a_waiver_names_cell_reason_owner_and_day() -> None:
    assert parse(TEXT) == (Waiver(CELL, "measured nightly elsewhere", "kernels", DAY),)
    assert parse("") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[waiver]\n", "is no TOML"),
        ("waiver = " + "1" * 5000 + "\n", "is no TOML"),
        ("waiver = " + "[" * 5000 + "]" * 5000 + "\n", "is no TOML"),
        ("[[waivers]]\n", "has waivers: wanted"),
        ("waiver = 3\n", "a single waiver"),
        (TEXT.replace('owner = "kernels"\n', ""), "waiver 1 has owner = None"),
        (TEXT.replace('"kernels"', '" "'), "waiver 1 has owner = ' '"),
        (TEXT.replace("2027-01-31", '"soon"'), "expires = 'soon': wanted a day"),
        (TEXT.replace("2027-01-31", "2027-01-31T10:00:00"), "wanted a day"),
        (TEXT.replace("a.b on sm90, per-commit", "a.b"), "cell = 'a.b': wanted 'CLAIM on ARCH"),
        (TEXT.replace("per-commit", "sometimes"), "with one of per-commit, labelled"),
        (TEXT + "until = 3\n", "waiver 1 has until = 3"),
        (TEXT + TEXT, "waiver 2 is the second for 'a.b on sm90, per-commit'"),
    ],
)
def test_what_is_no_waiver_is_named_with_what_is_wanted(text: str, said: str) -> None:
    with pytest.raises(PlumbError) as error:
        parse(text)
    assert "tools/plumb/waivers.toml" in str(error.value) and said in str(error.value)


def test_a_waiver_holds_until_the_end_of_its_day() -> None:
    held = parse(TEXT)
    assert judge(held, {CELL}, ["a.b"], DAY).accepted == held
    later = judge(held, {CELL}, ["a.b"], DAY + datetime.timedelta(days=1))
    assert later.expired == held and not later.accepted and not later.cells


def test_a_waiver_of_a_covered_cell_is_idle() -> None:
    assert judge(parse(TEXT), set(), ["a.b"], DAY).idle == parse(TEXT)


def test_a_waiver_of_an_unknown_claim_is_refused_with_the_nearest() -> None:
    with pytest.raises(PlumbError, match=r"unknown claim 'a.b': did you mean a.bb\?"):
        judge(parse(TEXT), set(), ["a.bb", "zzz"], DAY)
