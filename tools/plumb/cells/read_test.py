from __future__ import annotations

import pytest

from tools.plumb.cells.made_up import claim_target, graph_of, suite_target, test_target
from tools.plumb.cells.model import Model
from tools.plumb.cells.read import model_of
from tools.plumb.graph import Target
from tools.plumb.pools import PoolRule

LINEAR = "quant.int8.linear"


def read(*targets: Target) -> Model:
    return model_of(graph_of(*targets))


def test_a_test_says_where_how_long_how_often_and_for_what() -> None:
    target = test_target("//q:a_test_h100", LINEAR, pool="h100", seconds=20, gpus=2)

    found = read(target, claim_target(LINEAR)).tests["//q:a_test_h100"]

    assert (found.pool, found.arch, found.gpus, found.seconds) == ("h100", "sm90", 2, 20)
    assert (found.cadence, found.level, found.covers) == ("per-commit", "layer", (LINEAR,))
    assert found.srcs == ("//q:a_test_h100.py",)
    assert (found.place, found.package) == ("q/BUILD.bazel:7", "q")


def test_a_claim_says_its_level_and_what_it_demands() -> None:
    model = read(claim_target(LINEAR, "cpu:per-commit", "sm90:nightly", sentence="Products agree."))

    claim = model.claims[LINEAR]

    assert (claim.sentence, claim.level) == ("Products agree.", "layer")
    assert claim.demands == (("cpu", "per-commit"), ("sm90", "nightly"))


def test_without_tags_a_test_runs_per_commit_on_the_cpu() -> None:
    bare = Target("//x:t", "rule", "py_test", {"tags": ["covers:a", "seconds:2"]}, ())

    model = read(bare)

    assert (model.tests["//x:t"].arch, model.tests["//x:t"].cadence) == ("cpu", "per-commit")
    assert model.problems == ()
    assert model.claims["a"].label is None


def test_a_mapping_of_pools_gives_the_architecture() -> None:
    target = Target("//x:t", "rule", "py_test", {"tags": ["hopper", "seconds:2"]}, ())

    model = model_of(graph_of(target), [PoolRule("h100", ("hopper",), 1, "sm90")])

    assert (model.tests["//x:t"].pool, model.tests["//x:t"].arch) == ("h100", "sm90")


def test_a_gpu_whose_architecture_nobody_says_is_its_pool() -> None:
    target = Target("//x:t", "rule", "py_test", {"tags": ["gpu", "seconds:2"]}, ())

    assert (read(target).tests["//x:t"].pool, read(target).tests["//x:t"].arch) == ("gpu", "gpu")


def test_a_claim_is_named_once_and_has_a_name() -> None:
    target = test_target("//q:t", LINEAR, tags=(f"covers:{LINEAR}", "covers:"))

    assert read(target).tests["//q:t"].covers == (LINEAR,)


def test_sources_of_another_package_count_where_a_test_has_no_own() -> None:
    attributes = {"tags": ["seconds:2"], "srcs": ["//shared:t_test.py"]}
    target = Target("//x:t", "rule", "py_test", attributes, ("//shared:t_test.py",))

    assert read(target).tests["//x:t"].srcs == ("//shared:t_test.py",)


@pytest.mark.parametrize(
    ("tags", "idle", "skips"),
    [
        (("manual",), "tagged manual", {}),
        (("disabled",), "disabled", {}),
        (("disabled: flaky on H100",), "disabled: flaky on H100", {}),
        (("machine:none",), "pool cpu has no machine yet", {}),
        (("skipped_on:sm100",), None, {"sm100": ""}),
        (("skipped_on:sm100 (no int8 matmul)",), None, {"sm100": "no int8 matmul"}),
    ],
)
def test_marks_of_tests_that_do_not_run(
    tags: tuple[str, ...], idle: str | None, skips: dict[str, str]
) -> None:
    found = read(test_target("//q:t", "a", tags=tags)).tests["//q:t"]

    assert (found.idle, found.skipped_on) == (idle, skips)


def test_a_manual_test_that_a_suite_lists_runs() -> None:
    model = read(test_target("//q:t", "a", tags=("manual",)), suite_target("//q:all", "//q:t"))

    assert model.tests["//q:t"].runs
    assert model.problems == ()


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (
            test_target("//q:t", "quant.int8.linaer"),
            "//q:t: covers unregistered claim 'quant.int8.linaer': did you mean quant.int8.linear?",
        ),
        (
            test_target("//q:t", LINEAR, tags=("cadence:nightly",)),
            "//q:t: tags 'cadence:per-commit' and 'cadence:nightly' contradict each other: "
            "keep one",
        ),
        (
            test_target("//q:t", LINEAR, seconds=None),
            "//q:t: covers claims and declares no seconds: add a tag seconds:N, as measured",
        ),
        (
            test_target("//q:t", LINEAR, tags=("seconds:soon",), seconds=None),
            "//q:t: tag 'seconds:soon': wanted a whole number from 1 to 999999999",
        ),
        (
            test_target("//q:t", LINEAR, cadence="per-comit"),
            "//q:t: unknown cadence 'per-comit': did you mean per-commit?",
        ),
        (
            test_target("//q:t", LINEAR, level="e2e"),
            f"//q:t: is of level e2e, and claim {LINEAR} needs layer: it covers nothing of it; "
            "name a claim of its own level",
        ),
        (
            test_target("//q:t", LINEAR, pool="h100", tags=("resources:gpu:2",)),
            "//q:t: tag 'resources:gpu:2' contradicts 1 GPUs: keep one number",
        ),
        (
            test_target("//q:t", LINEAR, pool="h100", tags=("cpu",)),
            "//q:t: tags 'cpu' and 'gpu' contradict each other: keep one",
        ),
        (
            test_target("//q:t", LINEAR, tags=("suite:nightly-cpu",)),
            "//q:t: tag 'suite:nightly-cpu' contradicts cadence per-commit: keep one of them",
        ),
        (
            test_target("//q:t", LINEAR, tags=("skipped_on:sm100 no int8",)),
            "//q:t: tag 'skipped_on:sm100 no int8': wanted skipped_on:ARCH (why), as for sm100",
        ),
        (
            test_target("//q:t", LINEAR, tags=("seconds:0",), seconds=None),
            "//q:t: tag 'seconds:0': wanted a whole number from 1 to 999999999",
        ),
        (
            Target("//q:t", "rule", "py_test", {"tags": ["cpu", "gpus:2"]}, ()),
            "//q:t: tag 'cpu' contradicts 2 GPUs: drop one",
        ),
        (
            Target("//q:t", "rule", "py_test", {"tags": [f"covers:{LINEAR}", "seconds:2"]}, ()),
            f"//q:t: covers {LINEAR} and declares no level: add level:layer, if it is one",
        ),
        (
            Target("//c:x", "rule", "coverage_claim", {"claim": "x", "sentence": "So."}, ()),
            "claim x (//c:x) demands nothing: write demands such as cpu:per-commit",
        ),
        (
            Target("//c:x", "rule", "coverage_claim", {"claim": "x", "sentence": "So."}, ()),
            "claim x (//c:x) has no level: write one of layer, e2e, perf, unit",
        ),
        (
            claim_target("x", ":nightly"),
            "claim x (//testing/claims:x) demands ':nightly', wanted ARCH:CADENCE: name one of ",
        ),
        (test_target("//q:t", tags=("covers:",)), "//q:t: tag 'covers:' names no claim"),
        (
            claim_target("x", sentence=" "),
            "claim x (//testing/claims:x) has no sentence: write what a test of it vouches for",
        ),
        (
            claim_target("x", level="layr"),
            "claim x (//testing/claims:x) has level 'layr': did you mean layer?",
        ),
        (
            claim_target("x", "sm90:nightyl"),
            "claim x (//testing/claims:x) demands 'sm90:nightyl', wanted ARCH:CADENCE: "
            "did you mean nightly?",
        ),
        (
            claim_target(LINEAR, package="//z"),
            f"claim {LINEAR} is registered by //testing/claims:{LINEAR} and by //z:{LINEAR}: "
            "keep one",
        ),
        (
            suite_target("//q:nightly"),
            "suite //q:nightly holds no test at all, and would pass: add one, or delete it",
        ),
    ],
)
def test_each_contradiction_is_said(target: Target, problem: str) -> None:
    assert problem in read(target, claim_target(LINEAR)).problems


def test_a_suite_of_tests_that_never_run_is_empty() -> None:
    model = read(test_target("//q:t", "a", tags=("disabled",)), suite_target("//q:s", "//q:t"))

    assert model.problems == (
        "suite //q:s holds tests that never run, and would pass: add one, or delete it",
    )


@pytest.mark.parametrize(
    ("tags", "holds"),
    [
        (("nightly-only",), False),
        (("+cpu",), True),
        (("cpu", "-covers:a"), False),
        (("medium",), True),
        (("manual",), True),
    ],
)
def test_a_suite_holds_what_its_tags_let_through(tags: tuple[str, ...], holds: bool) -> None:
    inner = suite_target("//q:inner", "//q:t")
    outer = suite_target("//q:outer", "//q:inner", tags=tags)

    problems = read(test_target("//q:t", "a"), inner, outer).problems

    assert (problems == ()) is holds


def test_a_suite_that_no_pattern_takes_may_be_empty() -> None:
    assert read(suite_target("//q:later", tags=("manual",))).problems == ()


def test_a_suite_of_a_pool_that_nobody_has_is_no_contradiction() -> None:
    absent = test_target("//q:t", "a", pool="b200", tags=("machine:none",))

    assert read(absent, suite_target("//q:s", "//q:t")).problems == ()


def test_a_suite_of_a_test_that_says_where_it_skips_itself_is_no_contradiction() -> None:
    skips = test_target("//q:t", "a", pool="h100", tags=("skipped_on:sm90 (no such package)",))

    model = read(skips, suite_target("//q:s", "//q:t"))

    assert model.problems == ()
    assert model.tests["//q:t"].given() == []


def test_right_declarations_have_no_problem() -> None:
    model = read(
        claim_target(LINEAR),
        test_target("//q:t_cpu", LINEAR),
        test_target("//q:t_h100", LINEAR, pool="h100", gpus=4),
        suite_target("//q:t", "//q:t_cpu", "//q:t_h100"),
    )

    assert model.problems == ()
