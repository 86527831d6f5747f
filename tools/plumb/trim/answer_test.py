"""What a change does, in made-up workspaces."""

import datetime

import pytest

from tools.plumb.cells.made_up import claim_target, suite_target, test_target
from tools.plumb.cells.model import Cell
from tools.plumb.errors import PlumbError
from tools.plumb.trim import ground as grounds
from tools.plumb.trim import waivers
from tools.plumb.trim.answer import Answer, answer
from tools.plumb.trim.change import Change, Labels, Merge, resolve
from tools.plumb.trim.ground import Ground
from tools.plumb.trim.made_up import ground_of, loaded
from tools.plumb.trim.outcome import State, Verdict

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


def test_a_test_of_another_level_weakens() -> None:
    claims = [claim_target(name, "sm90:per-commit", level="e2e") for name in "xy"]
    whole = test_target("//t:a_test", "x", "y", pool="h100", level="e2e")
    ground = ground_of(*claims, whole)
    assert states(asked(ground, "//t:a_test"))["x on sm90, per-commit"] is State.LOST


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


def test_a_suite_must_not_lose_its_last_test() -> None:
    suite = suite_target("//:quick", "//t:a_test")
    ground = ground_of(A, suite, test_target("//t:b_test", "x", "y", pool="h100"))
    found = asked(ground, "//t:a_test")
    assert found.emptied == ("//:quick",)
    assert "suite //:quick would hold no test that runs, and pass" in found.refused


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


def test_a_test_without_claim_and_one_that_never_ran_say_so() -> None:
    ground = ground_of(test_target("//t:a_test"), test_target("//t:b_test", tags=("manual",)))
    verdicts = [d.verdict for d in asked(ground, "//t:a_test", "//t:b_test").dropped]
    assert verdicts == [Verdict.NO_CLAIM, Verdict.NEVER_RAN]


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


def test_merged_tests_are_as_long_as_the_longest_and_keep_the_claims_of_all() -> None:
    files = {f"t/{n}_test.py": SERVER.format(f"--{n}") for n in "ab"}
    ground = ground_of(
        test_target("//t:a_test", "x", pool="h100", seconds=40),
        test_target("//t:b_test", "y", pool="h100", seconds=60),
        files=files,
    )
    found = asked(ground, merges=(Merge(("//t:a_test", "//t:b_test")),))
    assert found.total.change.seconds == -40
    assert set(states(found).values()) == {State.KEPT}
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


def test_tests_of_two_pools_are_no_merge() -> None:
    tests = [test_target("//t:a_test", "x"), test_target("//t:b_test", "x", pool="h100")]
    files = {f"t/{n}_test.py": SERVER.format(f"--{n}") for n in "ab"}
    with pytest.raises(PlumbError, match=r"they differ in pool \(//t:a_test cpu, //t:b_test h100"):
        asked(ground_of(*tests, files=files), merges=(Merge(("//t:a_test", "//t:b_test")),))


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
