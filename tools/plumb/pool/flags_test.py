from pathlib import Path

import pytest

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pool import flags
from tools.plumb.pool.flags import Flags

# What Bazel 7.7.1 says of --output_base, --keep_going (-k), --host_jvm_debug (which has no `no`
# and stands for another one) and --compilation_mode (-c), without documentation and commands.
SAID = (
    b"ChMKC291dHB1dF9iYXNlEAAwAFABChUKCmtlZXBfZ29pbmcQASoBazAAUAAKFgoOaG9zdF9qdm1fZGVidWcQADAA"
    b"UAAKGwoQY29tcGlsYXRpb25fbW9kZRAAKgFjMABQAQ=="
)


def program(folder: Path, text: str) -> Path:
    made = folder / "bazel"
    made.write_text(f"#!/bin/sh\n{text}\n")
    made.chmod(0o755)
    return made


def test_bazel_says_which_options_take_a_value(tmp_path: Path) -> None:
    entry = program(tmp_path, f'[ "$*" = "help flags-as-proto" ] && echo {SAID.decode()}')

    found = flags.of_bazel(entry, tmp_path)

    assert found == Flags(
        frozenset({"output_base", "compilation_mode"}),
        {"c": "compilation_mode", "k": "keep_going"},
    )


@pytest.mark.parametrize("text", ["echo no Bazel >&2; exit 2", "echo no Bazel >&2; echo AAAA"])
def test_a_bazel_that_does_not_say_so_is_named_with_its_words(tmp_path: Path, text: str) -> None:
    entry = program(tmp_path, text)

    with pytest.raises(PlumbError, match=r"said no Bazel.*write each value behind '='") as raised:
        flags.of_bazel(entry, tmp_path)

    assert str(entry) in str(raised.value)
    assert raised.value.code is ExitCode.ENVIRONMENT


def test_a_program_that_cannot_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlumbError, match=r"cannot run .*/none: No such file"):
        flags.of_bazel(tmp_path / "none", tmp_path)


def test_words_are_grouped_until_the_targets_alone() -> None:
    found = flags.read(SAID).grouped(["-k", "-c", "opt", "--output_base=x", "a", "--", "-c", "b"])

    assert [*found] == [
        *(("-k",), ("-c", "opt"), ("--output_base=x",), ("a",), ("--",), ("-c",), ("b",))
    ]
