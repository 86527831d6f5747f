"""What a change does, in made-up workspaces."""

import datetime
from dataclasses import replace

import pytest

from tools.plumb.cells.made_up import claim_target, suite_target, test_target
from tools.plumb.cells.model import Cell, Claim, Model, Test
from tools.plumb.errors import PlumbError
from tools.plumb.graph import Target
from tools.plumb.trim import ground as grounds
from tools.plumb.trim import waivers
from tools.plumb.trim.answer import Answer, answer
from tools.plumb.trim.change import Change, Labels, Merge, merged_test, resolve
from tools.plumb.trim.ground import Ground
from tools.plumb.trim.made_up import ground_of, loaded
from tools.plumb.trim.outcome import State, Verdict, cell_changes
from tools.plumb.trim.saving import Sum

TODAY = datetime.date(2027, 1, 1)
A = test_target("//t:a_test", "x", "y", pool="h100", seconds=100, gpus=2)
SERVER = "launch_server('m', ['--tp', '2', '{}'])\ndef test_it(): pass\n"


def asked(ground: Ground, *drop: str, **others: object) -> Answer:
    held = others.pop("held", ())
    return answer(ground, Change(drop, **others), held, TODAY)  # type: ignore[arg-type]


def states(found: Answer) -> dict[str, State]:
    return {str(cell.cell): cell.state for cell in found.cells}


def test_a_cell_is_kept_by_whom_weakened_or_lost() -> None:
    ground = ground_of(
        A,
        test_target("//t:b_test", "x", pool="h100"),
        test_target("//t:c_test", "y", pool="h100", cadence="nightly"),
    )
    found = asked(ground, "//t:a_test")
    assert states(found) == {
        "x on sm90, per-commit": State.KEPT,
        "y on sm90, per-commit": State.WEAKENED,
        "y on sm90, nightly": State.KEPT,
    }
    kept = next(c for c in found.cells if c.state is State.KEPT and c.cell.claim == "x")
    assert [test.label for test in kept.after] == ["//t:b_test"]
    assert found.dropped[0].verdict is Verdict.WEAKENS
    assert found.refused == ["weakened: y on sm90, per-commit (only nightly)"]
    assert found.doubts == {
        "//t:a_test": ("//t:c_test is no substitute for y on sm90, per-commit: only nightly",)
    }


@pytest.mark.parametrize(
    ("other", "state"),
    [
        (test_target("//t:b_test", "z", pool="h100"), State.LOST),
        (test_target("//t:b_test", "x", "y", pool="b200"), State.WEAKENED),
        (test_target("//t:b_test", "x", "y", pool="h100", cadence="labelled"), State.WEAKENED),
        (test_target("//t:b_test", "x", "y", pool="h100", tags=("manual",)), State.LOST),
        (test_target("//t:b_test", "x", "y", pool="h100", tags=("skipped_on:sm90",)), State.LOST),
    ],
)
def test_what_remains_elsewhere_more_rarely_or_skipped_does_not_keep_a_cell(
    other: object, state: State
) -> None:
    found = asked(ground_of(A, other), "//t:a_test")  # type: ignore[arg-type]
    assert states(found)["x on sm90, per-commit"] is state


def test_a_disabled_test_does_not_hide_one_that_runs_nightly_or_elsewhere() -> None:
    disabled = test_target("//t:b_test", "x", "y", pool="h100", tags=("disabled",))
    nightly = test_target("//t:c_test", "x", pool="h100", cadence="nightly")
    elsewhere = test_target("//t:d_test", "y", pool="b200")
    found = asked(ground_of(A, disabled, nightly, elsewhere), "//t:a_test")
    assert found.refused[:2] == [
        "weakened: x on sm90, per-commit (only nightly)",
        "weakened: y on sm90, per-commit (only another architecture)",
    ]
    assert found.dropped[0].verdict is Verdict.WEAKENS


def test_a_test_of_another_level_weakens() -> None:
    whole = Test("//t:a", "h100", "sm90", 1, 9, level="e2e", covers=("x",))
    part = replace(whole, label="//t:b", level="layer")
    before = Model({"x": Claim("x", "So.", "e2e")}, {test.label: test for test in (whole, part)})
    (change,) = cell_changes(before, before.without(["//t:a"]), Change(("//t:a",)))
    assert change.state is State.WEAKENED
    assert change.missing is not None and change.missing.sentence == "only another level"


def test_savings_are_those_of_each_suite_and_pool() -> None:
    ground = ground_of(
        test_target("//t:a_test", "x", pool="h100", seconds=100, gpus=2, tags=("suite:big",)),
        test_target("//t:b_test", "x", pool="h100", seconds=10, tags=("suite:small",)),
        test_target("//t:c_test", seconds=7),
    )
    found = asked(ground, "//t:a_test", add=("//t:b_test",))
    figures = {n: (s.change.seconds, s.change.gpu_seconds) for n, s in found.suites.items()}
    assert figures == {"big": (-100, -200), "small": (10, 10)}
    assert {n: s.change.seconds for n, s in found.pools.items()} == {"h100": -90}
    assert found.total.before.seconds == 107 and found.total.after.seconds == 17


def test_what_never_runs_saves_nothing_and_what_declares_no_seconds_is_counted() -> None:
    ground = ground_of(
        test_target("//t:a_test", pool="h100", seconds=100, tags=("disabled",)),
        test_target("//t:b_test", pool="h100", seconds=None),
        test_target("//t:c_test", pool="h100", seconds=7, cadence="nightly"),
        test_target("//t:d_test", seconds=1),
    )
    found = asked(ground, "//t:a_test", "//t:b_test", "//t:c_test")
    assert found.total.before == Sum(3, 8, 7, 1)
    assert found.total.change == Sum(-2, -7, -7, -1)
    assert {n: s.change for n, s in found.suites.items()} == {
        "nightly-h100": Sum(-1, -7, -7),
        "per-commit-h100": Sum(-1, 0, 0, -1),
    }


def test_what_an_added_test_alone_covers_is_won() -> None:
    ground = ground_of(A, test_target("//t:b_test", "x", "z", pool="h100"))
    found = asked(ground, add=("//t:b_test",))
    assert states(found) == {
        "x on sm90, per-commit": State.KEPT,
        "z on sm90, per-commit": State.WON,
    }


def test_a_suite_must_not_lose_its_last_test() -> None:
    suite = suite_target("//:quick", "//t:a_test")
    ground = ground_of(A, suite, test_target("//t:b_test", "x", "y", pool="h100"))
    found = asked(ground, "//t:a_test")
    assert found.emptied == ("//:quick",)
    assert "suite //:quick would hold no test that runs, and pass" in found.refused


def test_a_suite_is_emptied_if_its_tags_keep_out_what_is_left() -> None:
    other = test_target("//t:b_test", "x", "y", pool="h100", tags=("slow",))
    suite = suite_target("//:quick", "//t:a_test", "//t:b_test", tags=("-slow",))
    ground = ground_of(A, other, suite)
    assert ground.suites == {"//:quick": ("//t:a_test",)}
    assert asked(ground, "//t:a_test").emptied == ("//:quick",)


def test_a_suite_of_which_nothing_ran_before_is_not_emptied() -> None:
    disabled = test_target("//t:c_test", tags=("disabled", "suite:old"))
    suite = suite_target("//:later", "//t:c_test", tags=("manual",))
    ground = ground_of(A, test_target("//t:b_test", "x", "y", pool="h100"), disabled, suite)
    assert asked(ground, "//t:a_test", "//t:c_test").emptied == ()


def test_an_added_test_that_skips_itself_promises_what_it_does_not_give() -> None:
    files = {"t/n_test.py": "@unittest.skipIf(sm() >= 100, 'no build')\ndef test_it(): pass"}
    claim = claim_target("x", "sm100:per-commit")
    new = test_target("//t:n_test", "x", pool="b200")
    ground = ground_of(claim, new, files={"t/n_test.py": files["t/n_test.py"]})
    assert ground.undeclared == ()  # sm() is nobody's name for it
    files["t/n_test.py"] = files["t/n_test.py"].replace("sm()", "get_device_sm()")
    ground = ground_of(claim, new, files=files)
    found = asked(ground, add=("//t:n_test",))
    (unmet,) = found.unmet
    assert str(unmet.cell) == "x on sm100, per-commit"
    assert "t/n_test.py:1 skips if get_device_sm() >= 100: no build" in found.refused[0]


def test_an_added_test_promises_nothing_of_where_it_does_not_run() -> None:
    claim = claim_target("x", "sm90:per-commit", "sm100:per-commit")
    found = asked(
        ground_of(claim, test_target("//t:n_test", "x", pool="h100")), add=("//t:n_test",)
    )
    assert (found.unmet, found.missing_elsewhere, found.refused) == ((), 1, [])


def test_a_waiver_accepts_what_is_promised_in_vain() -> None:
    claim = claim_target("x", "sm100:per-commit")
    new = test_target("//t:n_test", "x", pool="b200", tags=("skipped_on:sm100",))
    held = waivers.Waiver(Cell("x", "sm100", "per-commit"), "why", "who", TODAY)
    ground = ground_of(claim, new)
    assert len(asked(ground, add=("//t:n_test",)).refused) == 1
    assert asked(ground, add=("//t:n_test",), held=(held,)).refused == []


def test_a_test_without_claim_and_those_that_never_ran_say_so() -> None:
    ground = ground_of(
        test_target("//t:a_test"),
        test_target("//t:b_test", tags=("manual",)),
        test_target("//t:c_test", "x", tags=("skipped_on:cpu",)),
    )
    found = asked(ground, "//t:a_test", "//t:b_test", "//t:c_test")
    verdicts = [dropped.verdict for dropped in found.dropped]
    assert verdicts == [Verdict.NO_CLAIM, Verdict.NEVER_RAN, Verdict.NEVER_RAN]


def test_a_waiver_accepts_a_loss_and_an_idle_or_expired_one_is_refused() -> None:
    ground = ground_of(A, test_target("//t:b_test", "x", pool="h100"))

    def held(claim: str, until: datetime.date) -> waivers.Waiver:
        cell = Cell(claim, "sm90", "per-commit")
        return waivers.Waiver(cell, "why", "who", until)

    tomorrow, yesterday = TODAY + datetime.timedelta(1), TODAY - datetime.timedelta(1)
    assert asked(ground, "//t:a_test", held=(held("y", tomorrow),)).refused == []
    assert len(asked(ground, "//t:a_test", held=(held("y", yesterday),)).refused) == 2
    (idle,) = asked(ground, "//t:a_test", held=(held("y", tomorrow), held("x", tomorrow))).refused
    assert "the waiver of x on sm90, per-commit by who matches no loss" in idle
    (expired,) = asked(ground, "//t:b_test", held=(held("y", yesterday),)).refused
    assert "the waiver of y on sm90, per-commit by who expired" in expired


def test_a_waiver_of_what_an_earlier_trim_gave_up_is_not_idle() -> None:
    ground = ground_of(A, test_target("//t:b_test", "x", pool="h100"))
    given_up = waivers.Waiver(Cell("x", "sm100", "per-commit"), "why", "who", TODAY)
    assert asked(ground, "//t:b_test", held=(given_up,)).refused == []


def test_merged_tests_are_as_long_as_the_longest_and_keep_the_claims_of_all() -> None:
    files = {f"t/{n}_test.py": SERVER.format(f"--{n}") for n in "ab"}
    ground = ground_of(
        test_target("//t:a_test", "x", pool="h100", seconds=40),
        test_target("//t:b_test", "y", pool="h100", seconds=60),
        files=files,
    )
    found = asked(ground, merges=(Merge(("//t:a_test", "//t:b_test")),))
    assert found.total.change.seconds == -40
    assert states(found) == {
        "x on sm90, per-commit": State.KEPT,
        "y on sm90, per-commit": State.KEPT,
    }
    assert found.merged["//t:a_test"].covers == ("x", "y")
    assert found.doubts == {
        "//t:b_test": (
            "no run would be without --a any more",
            "no run would be without --b any more",
        )
    }
    said = asked(ground, merges=(Merge(("//t:a_test", "//t:b_test"), 75),))
    assert said.total.change.seconds == -25


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def test_it(): pass", "//t:b_test starts no server (t/b_test.py)"),
        (SERVER.format("--x").replace("'2'", "'4'"), "contradict: --tp 2 and 4"),
        (SERVER.format("--x").replace("'m'", "'n'"), "contradict: model m and n"),
    ],
)
def test_a_merge_that_shares_no_server_is_refused(text: str, said: str) -> None:
    files = {"t/a_test.py": SERVER.format("--a"), "t/b_test.py": text}
    tests = [test_target(f"//t:{n}_test", n, pool="h100") for n in "ab"]
    with pytest.raises(PlumbError) as error:
        asked(ground_of(*tests, files=files), merges=(Merge(("//t:a_test", "//t:b_test")),))
    assert said in str(error.value)


def test_a_twin_that_holds_runs_to_another_figure_is_a_doubtful_keeper() -> None:
    text = "def test_a():\n    s = launch_server('m')\n    score = run(s)\n    assert score > 0.5\n"
    files = {"t/a_test.py": text.replace("0.5", "0.58"), "t/b_test.py": text}
    tests = [test_target(f"//t:{n}_test", "x", pool="h100") for n in "ab"]
    found = asked(ground_of(*tests, files=files), "//t:a_test")
    (doubt,) = found.doubts["//t:a_test"]
    assert "//t:b_test is no equal of it" in doubt and "0.58 against 0.5" in doubt


def test_names_are_found_as_labels_suites_and_folders() -> None:
    labels = Labels(
        ["//a/b:one_test", "//a:two_test", "//c:three_test"], {"//a:all_of_it": ["//a:two_test"]}
    )
    assert labels.resolve("//a/...") == ["//a/b:one_test", "//a:two_test"]
    assert labels.resolve("//...") == ["//a/b:one_test", "//a:two_test", "//c:three_test"]
    assert labels.resolve("//a:all") == ["//a:two_test"]
    assert labels.resolve("//a:all_of_it") == ["//a:two_test"]
    assert labels.resolve("@//c:three_test") == ["//c:three_test"]


@pytest.mark.parametrize(
    ("drop", "merge", "add", "said"),
    [
        (["//a:on_test"], [], [], "there is no test '//a:on_test'; did you mean //a:one_test"),
        (["//b/..."], [], [], "'//b/...' names no test"),
        (["//a:one_test"], [], ["//a:one_test"], "//a:one_test is in --drop and in --add"),
        ([], ["//a:one_test"], [], "wanted A+B"),
        ([], ["//a:one_test+//a:one_test"], [], "cannot be merged with itself"),
        ([], ["//a:one_test+//a:two_test=x"], [], "after = wanted whole seconds"),
        ([], ["//a:one_test+//a/..."], [], "'//a/...' names 2 tests; name one of"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    drop: list[str], merge: list[str], add: list[str], said: str
) -> None:
    labels = Labels(["//a:one_test", "//a:two_test"], {})
    with pytest.raises(PlumbError) as error:
        resolve(labels, drop, merge, add)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (test_target("//t:b_test", "x"), "pool (//t:a_test h100, //t:b_test cpu)"),
        (test_target("//t:b_test", "x", pool="h100", gpus=2), "gpus (//t:a_test 1, //t:b_test 2)"),
        (test_target("//t:b_test", "x", pool="h100", cadence="nightly"), "cadence (//t:a_test"),
        (test_target("//t:b_test", "x", pool="h100", level="e2e"), "level (//t:a_test layer"),
    ],
)
def test_tests_of_two_places_cadences_or_levels_are_no_merge(other: Target, said: str) -> None:
    tests = [test_target("//t:a_test", "x", pool="h100"), other]
    files = {f"t/{n}_test.py": SERVER.format(f"--{n}") for n in "ab"}
    with pytest.raises(PlumbError) as error:
        asked(ground_of(*tests, files=files), merges=(Merge(("//t:a_test", "//t:b_test")),))
    assert f"they differ in {said}" in str(error.value)


def test_a_merge_with_a_test_of_unknown_length_has_no_length() -> None:
    tests = {label: Test(label, seconds=s) for label, s in (("//t:a", 5), ("//t:b", None))}
    assert merged_test(Model({}, tests), Merge(("//t:a", "//t:b"))).seconds is None
    assert merged_test(Model({}, tests), Merge(("//t:a", "//t:b"), 9)).seconds == 9


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ([A, claim_target("x", sentence=""), claim_target("y")], "claim x"),
        ([test_target("//t:a_test", "x", tags=("seconds:9",))], "'seconds:9'"),
        ([A, suite_target("//:none")], "suite //:none holds no test at all, and would pass"),
        ([], "has no test"),
    ],
)
def test_contradictory_declarations_stop_the_trim(targets: list[object], said: str) -> None:
    with pytest.raises(PlumbError) as error:
        grounds.of(loaded(*targets))  # type: ignore[arg-type]
    assert said in str(error.value)
