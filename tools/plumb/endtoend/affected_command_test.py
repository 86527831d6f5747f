from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.plumb.endtoend.fake_workspace import POLICY, Workspace

LISTED = """
[[rule]]
pattern = "*.cfg"
affects = ["//:one"]
reason = "one reads it by itself"
"""
POOLS = """
[[pool]]
name = "slow"
tags = ["seconds:3"]
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def edit_both(workspace: Workspace) -> None:
    workspace.write("one.test", "2")
    workspace.write("two_gpu.test", "2")


def test_one_pool_can_be_asked_for(workspace: Workspace) -> None:
    edit_both(workspace)

    asked = ("affected", "--base", "HEAD", "--format", "bazel")
    assert workspace.plumb(*asked).stdout == "//:one\n//:two_gpu\n"
    assert workspace.plumb(*asked, "--pool", "h100").stdout == "//:two_gpu\n"
    wrong = workspace.plumb(*asked, "--pool", "h1000")
    assert wrong.returncode == 2 and "the pools are cpu, h100" in wrong.stderr


def test_the_matrix_is_one_line_of_json(workspace: Workspace) -> None:
    edit_both(workspace)

    result = workspace.plumb("affected", "--base", "HEAD", "--format", "github")

    jobs = json.loads(result.stdout)["include"]
    assert [(job["pool"], job["targets"]) for job in jobs] == [
        ("cpu", "//:one"),
        ("h100", "//:two_gpu"),
    ]
    assert result.stdout.count("\n") == 1


def test_what_is_saved_is_counted_against_everything(workspace: Workspace) -> None:
    workspace.write("one.test", "2")
    asked = ("affected", "--base", "HEAD")

    saved = json.loads(workspace.plumb(*asked, "--format", "json").stdout)["totals"]["saved"]

    assert saved == {"tests": 1, "seconds": 20, "gpu_seconds": 20}
    assert "Saved against everything: 1 test, 20 s, 20 GPU-s" in workspace.plumb(*asked).stdout


@pytest.mark.parametrize("output", ["text", "json", "bazel", "github"])
def test_strict_fails_on_a_file_that_no_rule_names(workspace: Workspace, output: str) -> None:
    workspace.write("stray.bin", "")
    asked = ("affected", "--base", "HEAD", "--format", output)

    plain, strict = workspace.plumb(*asked), workspace.plumb(*asked, "--strict")

    assert (plain.returncode, strict.returncode) == (0, 9)
    assert strict.stdout == plain.stdout and "stray.bin" in strict.stderr


def test_strict_is_content_with_what_the_policy_knows(workspace: Workspace) -> None:
    workspace.write("notes.md", "more")

    assert workspace.plumb("affected", "--base", "HEAD", "--strict").returncode == 0


def test_the_policy_can_name_tests(workspace: Workspace) -> None:
    workspace.write("tools/plumb/policy.toml", POLICY + LISTED)
    workspace.commit()
    workspace.write("a.cfg", "")

    result = workspace.plumb("affected", "--base", "HEAD", "--format", "json")

    content = json.loads(result.stdout)
    assert [(t["label"], t["cause"]) for t in content["tests"]] == [("//:one", "policy")]
    assert content["unowned"][0]["affects"] == ["//:one"]


def test_pools_can_come_from_a_mapping_file(workspace: Workspace) -> None:
    workspace.write("tools/plumb/pools.toml", POOLS)
    workspace.commit()
    workspace.write("one.test", "2")

    result = workspace.plumb("affected", "--base", "HEAD", "--format", "json")

    # What a test says of itself goes first.
    assert json.loads(result.stdout)["tests"][0]["pool"] == "cpu"


def test_a_merge_base_leaves_out_what_came_to_the_base_since(workspace: Workspace) -> None:
    workspace.git("checkout", "--quiet", "-b", "topic")
    workspace.write("one.test", "2")
    workspace.commit()
    workspace.git("checkout", "--quiet", "-b", "other", "HEAD~1")
    workspace.write("two_gpu.test", "2")
    workspace.commit()
    asked = ("affected", "--base", "other", "--head", "topic", "--format", "bazel")

    assert workspace.plumb(*asked).stdout == "//:one\n//:two_gpu\n"
    assert workspace.plumb(*asked, "--merge-base").stdout == "//:one\n"


def test_options_count_by_the_config_of_the_pool(workspace: Workspace) -> None:
    workspace.write(".bazelrc", "test:h100 --test_env=A=b\n")
    asked = ("affected", "--base", "HEAD", "--format", "bazel")

    assert workspace.plumb(*asked).stdout == "//:two_gpu\n"
    assert workspace.plumb(*asked, "--config", "h100").stdout == "//:one\n//:two_gpu\n"
    assert workspace.plumb(*asked, "--config", "cpu").stdout == ""
    wrong = workspace.plumb(*asked, "--config", "h10")
    assert wrong.returncode == 2
    assert "defines --config=h10, and no pool has the name; there are cpu, h100." in wrong.stderr


def test_nightly_tests_are_told_apart(workspace: Workspace) -> None:
    workspace.write("slow_nightly.test", "1")
    workspace.write("one.test", "2")
    asked = ("affected", "--base", "HEAD")

    totals = json.loads(workspace.plumb(*asked, "--format", "json").stdout)["totals"]
    assert totals["pools"]["cpu"]["cadences"] == {"per-commit": 1, "nightly": 1}
    assert "cpu: 2 tests (1 nightly), 6 s" in workspace.plumb(*asked).stdout
    run = json.loads(workspace.plumb(*asked, "--run", "--format", "json").stdout)["run"]
    assert (run["ran"]["cpu"]["tests"], run["waiting"]) == (1, {"nightly": ["//:slow_nightly"]})
    said = workspace.plumb(*asked, "--run").stdout
    assert "left to the nightly run: 1 test; --cadence nightly runs it" in said


def test_a_cadence_narrows_what_programs_get(workspace: Workspace) -> None:
    workspace.write("slow_nightly.test", "1")
    workspace.write("one.test", "2")
    asked = ("affected", "--base", "HEAD", "--format", "bazel")

    assert workspace.plumb(*asked).stdout == "//:one\n//:slow_nightly\n"
    assert workspace.plumb(*asked, "--cadence", "nightly").stdout == "//:slow_nightly\n"
    wrong = workspace.plumb(*asked, "--cadence", "weekly")
    assert wrong.returncode == 2 and "there are all, nightly, per-commit" in wrong.stderr
