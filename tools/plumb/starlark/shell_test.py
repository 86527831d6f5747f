from __future__ import annotations

import pytest

from tools.plumb.starlark.shell import without_comments

SCRIPT = '#!/usr/bin/env bash\nset -e\n{}\nexec bazel "$@"\n'


def test_comments_and_empty_lines_do_not_count() -> None:
    commented = SCRIPT.format("# one\n\n  # two")

    assert without_comments(commented) == without_comments(SCRIPT.format(""))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", "x=1"),
        ("x=1", "x=1 # y"),
        ("cat <<E\n# a\nE", "cat <<E\n# b\nE"),
        ("x='\n# a\n'", "x='\n# b\n'"),
        ("x=a\\\n# a", "x=a\\\n# b"),
        ("f=$(\n# a\n)", "f=$(\n# b\n)"),
        ("x=1 \\", "x=2 \\"),
    ],
)
def test_what_may_be_said_counts(old: str, new: str) -> None:
    assert without_comments(SCRIPT.format(old)) != without_comments(SCRIPT.format(new))


def test_what_is_no_shell_script_counts_as_it_is() -> None:
    for script in ("#!/usr/bin/env python3\n# x\n", "", "\x7fELF\n#"):
        assert without_comments(script) == script
