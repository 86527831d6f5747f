from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.plumb import run
from tools.plumb.bazel import Place
from tools.plumb.compare.access import Access
from tools.plumb.compare.affected import Affected, Comparison
from tools.plumb.errors import ExitCode
from tools.plumb.pools import Placement


def made(label: str, pool: str, gpus: int = 0, arch: str | None = None) -> Affected:
    return Affected(label, Placement(pool, arch, gpus, 1, None), "input", "x")


TESTS = [
    made("//a:c", "cpu"),
    made("//a:one", "h100", 1, "sm90"),
    made("//a:two", "h100", 2, "sm90"),
    made("//a:b", "b200", 1, "sm100"),
]


def compared(tests: list[Affected], *users: str) -> Comparison:
    return Comparison(tests, 9, [], [], access=Access(["//x:changed"] if users else [], [*users]))


def summary(label: str, status: str) -> str:
    return json.dumps(
        {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}}
    )


EVENTS = "\n".join(
    [
        '{"id": {"started": {}}, "started": {}}',
        summary("//a:c", "PASSED"),
        summary("@@//a:flaky", "FLAKY"),
        summary("//a:bad", "FAILED"),
        summary("//a:late", "TIMEOUT"),
        summary("//a:not", "NO_STATUS"),
        '{"id": {"testSumm',
    ]
)


def fake_bazel(folder: Path, code: int) -> Path:
    """A workspace whose tools/bazel writes down what it was given and exits with `code`."""
    entry = folder / "tools" / "bazel"
    entry.parent.mkdir(parents=True)
    entry.write_text(
        '#!/bin/sh\necho "$@" >> calls\n'
        f'for a in "$@"; do case $a in *pattern_file=*) cat "${{a#*=}}" >> calls;; esac; done\n'
        f'for a in "$@"; do case $a in *event_json_file=*) cp events "${{a#*=}}";; esac; done\n'
        f"exit {code}\n"
    )
    entry.chmod(0o755)
    (folder / "events").write_text(EVENTS)
    return folder


def labels(groups: dict[str, list[Affected]]) -> dict[str, list[str]]:
    return {pool: [test.label for test in tests] for pool, tests in groups.items()}


def test_splits_by_what_this_machine_has() -> None:
    here, elsewhere = run.split(TESTS, {"sm90": 1})

    assert labels(here) == {"cpu": ["//a:c"], "h100": ["//a:one"]}
    assert labels(elsewhere) == {"h100": ["//a:two"], "b200": ["//a:b"]}


def test_without_a_gpu_only_cpu_tests_run() -> None:
    here, elsewhere = run.split(TESTS, {})

    assert list(here) == ["cpu"] and sorted(elsewhere) == ["b200", "h100"]


def test_gpu_pools_get_their_config_and_all_cards() -> None:
    options = run.pool_options("h100", TESTS[1:3], {"sm90": 4}, {"h100"})

    assert "--config=h100" in options and "--local_resources=gpu=4" in options
    assert run.pool_options("cpu", TESTS[:1], {}, {"cpu"}) == []


def test_configs_that_the_user_names_take_the_place_of_a_pools_own() -> None:
    options = run.pool_options("h100", TESTS[1:3], {"sm90": 4}, {"h100"}, ["ci"])

    assert "--config=ci" in options and "--config=h100" not in options
    assert run.pool_options("cpu", TESTS[:1], {}, {"cpu"}, ["ci"]) == ["--config=ci"]


def test_a_config_that_the_workspace_does_not_define_is_not_asked_for() -> None:
    options = run.pool_options("h100", TESTS[1:3], {"sm90": 4}, {"other"})

    assert not any(option.startswith("--config") for option in options)


@pytest.mark.parametrize(
    ("bazel_code", "code"),
    [
        (0, ExitCode.OK),
        (3, ExitCode.TESTS_FAILED),
        (1, ExitCode.BUILD_FAILED),
        (8, ExitCode.INTERRUPTED),
        (36, ExitCode.BUILD_FAILED),
    ],
)
def test_bazels_exit_code_becomes_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bazel_code: int, code: ExitCode
) -> None:
    monkeypatch.delenv("PLUMBLINE_BAZEL", raising=False)
    workspace = fake_bazel(tmp_path, bazel_code)

    outcome = run.run(compared(TESTS), {}, Place(workspace, workspace), (), lambda text: None)

    assert outcome.code is code
    results = {"passed": ["//a:c", "//a:flaky"], "failed": ["//a:bad", "//a:late"]}
    ran = {"tests": 1, "bazel_exit": bazel_code, **results}
    assert outcome.fields()["ran"] == {"cpu": ran}
    assert outcome.left == {"h100": ["//a:one", "//a:two"], "b200": ["//a:b"]}
    assert (tmp_path / "calls").read_text().splitlines()[1:] == ["//a:c"]


def test_another_revision_runs_in_an_output_base_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLUMBLINE_BAZEL", raising=False)
    workspace = fake_bazel(tmp_path, 0)

    run.run(
        compared(TESTS), {}, Place(workspace, workspace, tmp_path / "base"), (), lambda text: None
    )

    call = (tmp_path / "calls").read_text()
    assert call.startswith(f"--output_base={tmp_path}/base --max_idle_secs=")


def test_users_of_what_has_another_visibility_are_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLUMBLINE_BAZEL", raising=False)
    workspace = fake_bazel(tmp_path, 1)

    outcome = run.run(
        compared([], "//x:user"), {}, Place(workspace, workspace), (), lambda text: None
    )

    assert outcome.code is ExitCode.BUILD_FAILED
    assert outcome.fields()["analysed"] == {"targets": 1, "bazel_exit": 1}
    call, label = (tmp_path / "calls").read_text().splitlines()
    assert call.startswith("build --nobuild ") and label == "//x:user"


def test_a_label_that_a_pattern_file_would_cut_is_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLUMBLINE_BAZEL", raising=False)
    workspace = fake_bazel(tmp_path, 0)
    tests = [made("//a:t #1", "cpu"), made("//a:u", "cpu")]

    run.run(compared(tests), {}, Place(workspace, workspace), (), lambda text: None)

    assert (tmp_path / "calls").read_text().endswith(" -- //a:t #1 //a:u\n")


def test_without_an_account_of_bazels_nothing_is_said_of_single_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLUMBLINE_BAZEL", raising=False)
    workspace = fake_bazel(tmp_path, 1)
    (tmp_path / "events").unlink()

    outcome = run.run(compared(TESTS), {}, Place(workspace, workspace), (), lambda text: None)

    assert outcome.ran == {"cpu": run.Ran(1, 1)}


def test_nothing_to_run_here_needs_no_bazel(tmp_path: Path) -> None:
    outcome = run.run(compared(TESTS[3:]), {}, Place(tmp_path, tmp_path), (), lambda text: None)

    assert outcome.code is ExitCode.OK and outcome.left == {"b200": ["//a:b"]}


NIGHTLY = Affected("//a:night", Placement("cpu", None, 0, 1, "nightly"), "input", "x")


@pytest.mark.parametrize(
    ("cadence", "ran", "waiting"),
    [
        ("per-commit", ["//a:c"], {"nightly": ["//a:night"]}),
        ("nightly", ["//a:night"], {"per-commit": ["//a:c"]}),
        ("all", ["//a:c", "//a:night"], {}),
    ],
)
def test_tests_of_another_cadence_wait_for_its_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cadence: str,
    ran: list[str],
    waiting: dict[str, list[str]],
) -> None:
    monkeypatch.delenv("PLUMBLINE_BAZEL", raising=False)
    workspace = fake_bazel(tmp_path, 0)
    both = compared([TESTS[0], NIGHTLY])

    outcome = run.run(both, {}, Place(workspace, workspace), (), lambda text: None, None, cadence)

    call, *labels = (tmp_path / "calls").read_text().splitlines()
    assert (labels, outcome.waiting) == (ran, waiting)
    # .bazelrc may leave nightly tests out by their tag, but not where they are named.
    assert ("--test_tag_filters= " in call) == (NIGHTLY.label in ran)
