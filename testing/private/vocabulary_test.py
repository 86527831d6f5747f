import json
from pathlib import Path

import pytest

CASES = json.loads((Path(__file__).parent / "vocabulary_cases.json").read_text())


def test_a_right_declaration_has_no_problem() -> None:
    assert CASES["problems"]["right"] == []


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("bad_cadence", "unknown cadence 'per-comit': did you mean 'per-commit'?"),
        ("bad_gpus", "gpus = 3: wanted one of [1, 2, 4, 8]"),
        ("bad_name", "name 'int8_linear' should end in _test"),
        ("bad_seconds", "seconds for pool 'h100' is 0: wanted a whole number of 1 or more"),
        ("claim_twice", "claim 'quant.int8_channel.linear.numerics' is listed twice: keep one"),
        (
            "gpus_without_gpu_pool",
            "gpus = 1, but no pool has a GPU: drop it or add a GPU pool",
        ),
        (
            "missing_seconds",
            "no seconds for pool 'h100': add seconds = {\"h100\": N}, as measured there",
        ),
        (
            "no_claim",
            "covers is empty: name the claims of //testing:claims.bzl that this test vouches for",
        ),
        ("no_pool", "pools is empty: name at least one of b200, cpu, h100, rtx5090"),
        ("no_test_file", "srcs holds no *_test.py: pytest would collect nothing"),
        ("pool_tag", "tag 'h100' is written by the macro: use pools instead"),
        ("pool_twice", "pool 'cpu' is listed twice: keep one"),
        (
            "covers_is_a_string",
            'covers = "quant.int8_channel.linear.numerics": wanted a list of strings',
        ),
        ("covers_holds_a_number", "covers = [5]: wanted a list of strings"),
        ("deps_holds_none", "deps = [None]: wanted a list of labels, or one with select()"),
        (
            "deps_is_a_string",
            'deps = "//layers:weights": wanted a list of labels, or one with select()',
        ),
        ("pools_holds_none", "pools = [None]: wanted a list of strings"),
        (
            "skip_of_an_unknown_pool",
            "skipped_on names unknown pool 'b20': did you mean 'b200'?",
        ),
        (
            "skip_without_reason",
            "skipped_on gives no reason for pool 'b200': "
            "write why the test would skip itself there",
        ),
        (
            "skipped_on_is_a_list",
            'skipped_on = ["b200"]: wanted a dict from pool to the reason',
        ),
        ("srcs_holds_a_number", "srcs = [5]: wanted a list of strings"),
        ("tags_holds_a_number", "tags = [5]: wanted a list of strings"),
        (
            "manual_tag",
            "tag 'manual' hides a test from every run: "
            'give it cadence = "nightly" or "labelled", or delete it',
        ),
        ("seconds_is_a_number", "seconds = 5: wanted a dict from pool to seconds"),
        ("level_tag", "tag 'level:e2e' is written by the macro: use the argument level instead"),
        (
            "reserved_tag",
            "tag 'seconds:3' is written by the macro: use the argument seconds instead",
        ),
        (
            "unlisted_seconds",
            "seconds for pool 'h100', which pools does not list: add the pool or drop the seconds",
        ),
        (
            "unknown_claim",
            "unknown claim 'quant.int8_chanel.linear.numerics': "
            "did you mean 'quant.int8_channel.linear.numerics'?",
        ),
        ("unknown_pool", "unknown pool 'h10': did you mean 'h100'?"),
        (
            "wrong_level",
            "claim 'quant.int8_channel.linear.numerics' needs a test of level layer: "
            "use layer_test",
        ),
    ],
)
def test_each_contradiction_says_what_to_write(case: str, expected: str) -> None:
    assert CASES["problems"][case] == [expected]


def test_what_the_macro_writes_is_not_taken_from_the_caller() -> None:
    assert CASES["keywords"] == [
        'size = "small": the macro writes it, from pools, seconds and srcs',
        "env sets OMP_NUM_THREADS, which the macro sets: drop it",
    ]


@pytest.mark.parametrize(
    ("case", "seen"), [("env_is_a_string", '"OWN=1"'), ("env_is_none", "None")]
)
def test_an_environment_that_is_none(case: str, seen: str) -> None:
    assert CASES[case] == [f"env = {seen}: wanted a dict from variable to value"]


def test_a_name_far_from_all_lists_them() -> None:
    assert CASES["suggestions"]["far"] == "known: cpu, h100"


def test_a_name_near_to_one_suggests_it() -> None:
    assert CASES["suggestions"]["near"] == "did you mean 'h100'?"


def test_a_cpu_target_says_where_how_long_how_often_and_for_what() -> None:
    assert CASES["cpu_tags"] == [
        "cadence:per-commit",
        "covers:quant.int8_channel.linear.numerics",
        "cpu",
        "level:layer",
        "seconds:12",
        "suite:per-commit-cpu",
    ]


def test_a_gpu_target_names_its_pool_its_architecture_and_its_gpus() -> None:
    assert CASES["gpu_tags"] == [
        "cadence:nightly",
        "covers:quant.int8_channel.linear.numerics",
        "gpu",
        "gpus:2",
        "h100",
        "level:layer",
        "resources:gpu:2",
        "seconds:20",
        "sm:sm90",
        "suite:nightly-h100-2gpu",
    ]


def test_a_target_says_where_it_would_skip_itself_and_why() -> None:
    assert CASES["problems"]["skips"] == []
    assert "skipped_on:sm100 (no int8 matmul)" in CASES["skipping_tags"]


def test_a_listed_pool_may_be_one_where_the_test_skips_itself() -> None:
    assert CASES["problems"]["skip_of_a_listed_pool"] == []
    tags = CASES["skipping_itself_tags"]
    assert "sm:sm90" in tags
    assert "skipped_on:sm90 (its image lacks a package)" in tags


def test_a_target_of_a_pool_that_nobody_has_says_so() -> None:
    assert "machine:none" in CASES["absent_gpu_tags"]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (
            "of_unknown_arch",
            "demands 'sm10:per-commit', and no pool is of architecture 'sm10': "
            "did you mean 'sm100'?",
        ),
        (
            "of_unknown_cadence",
            "demands 'sm90:nightyl', and there is no cadence 'nightyl': did you mean 'nightly'?",
        ),
        ("of_unknown_level", "has level 'layr': did you mean 'layer'?"),
        (
            "without_demands",
            'demands nothing: write demands = ["cpu:per-commit"], or what has to be covered',
        ),
        ("without_sentence", "has no sentence: write what holds if its tests pass"),
    ],
)
def test_a_wrong_claim_says_what_to_write(case: str, expected: str) -> None:
    assert CASES["claims"]["right"] == []
    assert CASES["claims"][case] == [f"claim 'a' {expected}"]
