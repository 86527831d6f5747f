from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tools.plumb.answer import formats
from tools.plumb.compare.affected import Affected
from tools.plumb.errors import PlumbError
from tools.plumb.pools import Placement


def made(*labels: str) -> list[Affected]:
    cpu = Placement("cpu", None, 0, 3, None)
    cards = [Placement("h100", "sm90", gpus, 20, None) for gpus in (2, 1)]
    tests = [Affected(label, cpu, "input", "x") for label in labels]
    tests += [Affected(f"//g:t{place.gpus}", place, "input", "x") for place in cards]
    return tests


def test_the_matrix_has_a_job_for_each_pool_and_number_of_gpus() -> None:
    jobs = json.loads(formats.as_github(made("//b:t", "//a:t"), {"h100"}))["include"]

    assert [(j["pool"], j["gpus"], j["targets"]) for j in jobs] == [
        ("cpu", 0, "//a:t //b:t"),
        ("h100", 1, "//g:t1"),
        ("h100", 2, "//g:t2"),
    ]
    assert (jobs[0]["seconds"], jobs[2]["gpu_seconds"]) == (6, 40)


def test_a_job_of_the_matrix_says_what_bazel_needs_to_run_all_of_it() -> None:
    # A config's filters hold for named targets too, and leave out tests of several GPUs.
    unfiltered = "--build_tag_filters= --test_tag_filters="
    jobs = json.loads(formats.as_github(made("//a:t"), {"h100"}))["include"]
    assert [job["options"] for job in jobs] == [
        "",
        f"--config=h100 {unfiltered} --local_resources=gpu=1",
        f"--config=h100 {unfiltered} --local_resources=gpu=2",
    ]
    jobs = json.loads(formats.as_github(made("//a:t"), {"ci"}, ["ci"]))["include"]
    assert [job["options"].split()[0] for job in jobs] == ["--config=ci"] * 3
    nightly = [replace(made("//a:t")[0], placement=Placement("cpu", None, 0, 3, "nightly"))]
    (job,) = json.loads(formats.as_github(nightly, ()))["include"]
    assert job["options"] == unfiltered


def test_without_tests_the_matrix_has_no_job() -> None:
    assert formats.as_github([], ()) == '{"include": []}'


def test_patterns_are_one_label_a_line() -> None:
    assert formats.as_patterns(made("//a:t")) == "//a:t\n//g:t1\n//g:t2\n"


def test_a_label_that_a_file_of_patterns_cannot_hold_is_refused() -> None:
    with pytest.raises(PlumbError, match="--format json"):
        formats.as_patterns(made("//a:t#1"))
