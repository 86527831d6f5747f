from __future__ import annotations

from tools.plumb.steering import wheel_lock

TEXT = """\
# Written by a tool.
numpy==2.1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via
    #   -r requirements.in
    #   scipy
ml-dtypes==0.5 \\
    --hash=sha256:cc
    # via torch
scipy==1.14 --hash=sha256:dd
    # via -r requirements.in
torch[extra]==2.9 ; python_version >= "3.11" \\
    --hash=sha256:ee
    # via
    #   -r requirements.in (line 3)
    #   lightning[all]
"""


def parts(text: str, wheel: str | None) -> dict[str, str]:
    return wheel_lock.parse(text).parts(wheel)


def test_reads_entries_and_who_needs_whom() -> None:
    read = wheel_lock.parse(TEXT)

    assert set(read.entries) == {"numpy", "ml-dtypes", "scipy", "torch"}
    assert read.closure("scipy") == {"scipy", "numpy"}
    assert read.closure("torch") == {"torch", "ml-dtypes"}
    assert not read.orphans


def test_a_bump_reaches_the_wheels_that_need_it_and_no_other() -> None:
    bumped = TEXT.replace("numpy==2.1.0", "numpy==2.2.0")

    assert parts(TEXT, "numpy") != parts(bumped, "numpy")
    assert parts(TEXT, "scipy") != parts(bumped, "scipy")
    assert parts(TEXT, "torch") == parts(bumped, "torch")


def test_comments_order_and_line_breaks_do_not_count() -> None:
    blocks = TEXT.split("scipy==")
    moved = f"# Other words.\nscipy=={blocks[1]}{blocks[0]}"
    joined = TEXT.replace("aa \\\n    --hash=sha256:bb", "bb --hash=sha256:aa")

    for wheel in ("numpy", "scipy", "torch", None):
        assert parts(TEXT, wheel) == parts(moved, wheel) == parts(joined, wheel)


def test_a_marker_counts() -> None:
    assert parts(TEXT, "torch") != parts(TEXT.replace("3.11", "3.12"), "torch")


def test_options_for_all_count_for_each() -> None:
    assert parts(TEXT, "scipy") != parts(f"--only-binary :all:\n{TEXT}", "scipy")


def test_a_wheel_that_says_not_who_needs_it_may_be_needed_by_all() -> None:
    text = f"{TEXT}mystery==1.0\n"

    assert "mystery" in wheel_lock.parse(text).closure("scipy")
    assert parts(text, "scipy") != parts(f"{TEXT}mystery==2.0\n", "scipy")


def test_an_unknown_wheel_is_the_whole_lock() -> None:
    bumped = TEXT.replace("numpy==2.1.0", "numpy==2.2.0")

    assert parts(TEXT, "unheard-of") != parts(bumped, "unheard-of")


def test_a_cycle_of_needs_ends() -> None:
    assert wheel_lock.parse("a==1\n    # via b\nb==1\n    # via a\n").closure("a") == {"a", "b"}
