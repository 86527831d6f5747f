from __future__ import annotations

import pytest

from tools.plumb.starlark import source

TEXT = 'X = [1, 2]\ndef f(a):\n    """Does."""\n    return a\n'


@pytest.mark.parametrize(
    "same",
    [
        "# comment\n" + TEXT,
        TEXT.replace("[1, 2]", "[\n    1,\n    2,\n]"),
        TEXT.replace("Does.", "Does more."),
        '"""Of the file."""\n' + TEXT,
    ],
)
def test_comments_layout_and_docstrings_mean_nothing(same: str) -> None:
    assert source.meaning(same) == source.meaning(TEXT)


@pytest.mark.parametrize("other", ["X = [2, 1]", TEXT + "Y = 1\n", "not ( starlark", "not ) it"])
def test_another_meaning_is_told(other: str) -> None:
    assert source.meaning(other) != source.meaning(TEXT)


def test_a_file_that_cannot_be_read_counts_as_text() -> None:
    assert source.meaning("not ( starlark") != source.meaning("not ( starlark # x")
