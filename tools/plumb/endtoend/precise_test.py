"""What `plumb affected --precise` leaves out, compared with what a real `bazel test` runs again.

Needs a Bazel: $PLUMBLINE_BAZEL, or this repository's tools/bazel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tools.plumb.endtoend.tiny_workspace import RC, Tiny, tiny_workspace


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    with tiny_workspace(tmp_path_factory.mktemp("tiny")) as made:
        yield made


@pytest.fixture
def tiny(shared: Tiny) -> Tiny:
    shared.reset()
    return shared


def precise(tiny: Tiny) -> tuple[set[str], list[str]]:
    """The tests that are left, and those that were left out."""
    result = tiny.plumb("--base", "HEAD", "--precise", "--format", "json")
    assert result.returncode == 0, result.stderr
    content = json.loads(result.stdout)
    return {test["label"] for test in content["tests"]}, content["unchanged"]


def test_what_reads_the_same_is_left_out(tiny: Tiny) -> None:
    # A rule rewritten to the same actions, and a generated file that comes out the same.
    tiny.replace("rules.bzl", "    ctx.actions.run_", "    unused = 1\n    ctx.actions.run_")
    tiny.replace("lib/BUILD", "cat $(SRCS)", ": x; cat $(SRCS)")
    named = tiny.selected()

    left, unchanged = precise(tiny)

    assert {"//app:joined_test", "//app:made_test"} <= named == set(unchanged)
    assert left == tiny.executed() == set()


def test_what_bazel_runs_again_stays(tiny: Tiny) -> None:
    tiny.executed()
    for path, old, new in (
        ("lib/BUILD", "cat $(SRCS) >", "(echo x; cat $(SRCS)) >"),
        ("rules.bzl", "cat /dev/null %s >", "(echo x; cat /dev/null %s) >"),
        ("app/BUILD", 'name = "lone_test"', 'name = "lone_test", args = ["x"]'),
        ("app/BUILD", 'data = ["folder"]', 'data = ["folder"], env = {"A": "b"}'),
        ("app/BUILD", '"seconds:3"', '"seconds:4"'),
    ):
        tiny.replace(path, old, new)

    left, unchanged = precise(tiny)

    assert (left, unchanged) == (tiny.executed(), [])
    assert len(left) == 6


def test_an_option_of_tests_alone_counts(tiny: Tiny) -> None:
    tiny.executed()
    tiny.write(".bazelrc", RC + "test --test_env=A=precise\n")

    assert precise(tiny)[0] == tiny.executed() != set()


def test_an_executable_bit_stays_selected(tiny: Tiny) -> None:
    (tiny.root / "lib/core.txt").chmod(0o755)

    # The others read only a file that is made from it, and comes out the same.
    assert precise(tiny)[0] == {"//app:core_test", "//app:alias_test"}


def test_what_cannot_be_built_at_the_base_stays_selected(tiny: Tiny) -> None:
    tiny.replace("lib/BUILD", "cat $(SRCS)", "false; cat $(SRCS)")
    tiny.commit()
    tiny.replace("lib/BUILD", "false; cat", "cat")

    result = tiny.plumb("--base", "HEAD", "--precise", "--format", "bazel")

    assert "//app:made_test" in result.stdout
    assert "not all can be built" in " ".join(result.stderr.split())
