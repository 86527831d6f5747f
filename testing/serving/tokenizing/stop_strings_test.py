"""Text ends before the first stop string, in whatever pieces it comes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.serving.tokenizing.stop_strings import StopStrings


def shown(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    text = StopStrings(stops)
    out = ""
    for piece in pieces:
        more, stopped = text.add(piece)
        out += more
        if stopped:
            return out, True
    return out + text.finish(), False


def expected(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    """By definition: piece by piece, the whole text searched each time."""
    whole = ""
    for piece in pieces:
        whole += piece
        found = [whole.find(stop) for stop in stops if stop in whole]
        if found:
            return whole[: min(found)], True
    return whole, False


@settings(max_examples=1000, deadline=None, database=None, derandomize=True)
@given(
    st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=3),
    st.lists(st.text(alphabet="ab", max_size=4), max_size=12),
)
def test_any_stops_in_any_pieces(stops: list[str], pieces: list[str]) -> None:
    assert shown(stops, pieces) == expected(stops, pieces)


def test_text_that_may_yet_be_a_stop_string_waits() -> None:
    text = StopStrings(["END"])
    assert text.add("abE") == ("ab", False)
    assert text.add("N") == ("", False)
    assert text.add("x") == ("ENx", False)
    assert text.add("E") == ("", False)
    assert text.add("ND and more") == ("", True)


@pytest.mark.parametrize("stops", [["abcd", "bc"], ["bc", "abcd"]])
def test_of_two_the_one_that_begins_first_counts(stops: list[str]) -> None:
    # Once "bc" is whole the text ends: before "abcd", which has begun already and may yet come.
    assert shown(stops, ["xa", "bc", "d"]) == ("xa", True)
    assert shown(stops, ["xabcd"]) == ("x", True)


def test_without_stop_strings_nothing_waits() -> None:
    assert StopStrings([]).add("END") == ("END", False)
