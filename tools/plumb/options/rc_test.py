from __future__ import annotations

import pytest

from tools.plumb.options import rc
from tools.plumb.synthetic import files

RC = """
# comment
startup --max_idle_secs=3
common --noenable_bzlmod --x=1 # more
import %workspace%/more.rc
build --jobs 4 -c opt
build:gpu --config=image --//:acc=gpu
test:gpu --test_env=A
query --q
"""
MORE = """
build:image \\
  --//:acc=held --y=two
test --test_output=errors
build:circle --config=circle --z
"""


def effective(*configs: str, text: str = RC) -> dict[str, tuple[str, ...]]:
    lines, _ = rc.read(files({".bazelrc": text, "more.rc": MORE}))
    return rc.effective(lines, configs)


def test_a_command_takes_the_options_of_those_it_inherits_from() -> None:
    assert effective() == {
        "enable_bzlmod": ("0",),
        "x": ("1",),
        "jobs": ("4",),
        "compilation_mode": ("opt",),
        "test_output": ("errors",),
        "startup max_idle_secs": ("3",),
    }


def test_a_config_brings_what_it_names_in_the_order_of_the_file() -> None:
    found = effective("gpu")

    assert found["//:acc"] == ("held", "gpu")
    assert found["test_env"] == ("A",) and found["y"] == ("two",)


def test_configs_that_name_themselves_end() -> None:
    assert effective("circle")["z"] == ("1",)


@pytest.mark.parametrize(
    "text", ["build --config=gpu", "build --config gpu", "common:linux --config=gpu\n"
    "build --enable_platform_specific_config"]
)  # fmt: skip
def test_configs_in_the_file_itself_are_followed(text: str) -> None:
    assert effective(text=f"{RC}\n{text}\n")["test_env"] == ("A",)


def test_spellings_of_a_value_are_one() -> None:
    spelled = [effective(text=f"build {word}") for word in ("--a", "--a=true", "--a yes", "--a=1")]

    assert all(found == {"a": ("1",)} for found in spelled)
    assert effective(text="build --noa") == effective(text="build --a=false") == {"a": ("0",)}


def test_without_a_file_there_are_no_options() -> None:
    assert rc.read(files({})) == ([], [])


def test_what_only_tests_get_is_told_apart() -> None:
    text = (
        "build --a=1\ntest --a=2 --test_env=B --config=more\ntest:more --//:f=x\nbuild:more --c=1\n"
    )
    lines, _ = rc.read(files({".bazelrc": text}))

    assert rc.of_tests_alone(lines) == {
        "a": ("1", "2"),
        "test_env": ("B",),
        "c": ("1",),
        "//:f": ("x",),
    }
