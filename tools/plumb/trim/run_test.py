"""The whole command on a made-up workspace: what it prints and returns."""

import datetime
import json
from pathlib import Path

import pytest

from tools.plumb.cells.made_up import test_target
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.trim.evidence import store
from tools.plumb.trim.evidence.judge import digest_of
from tools.plumb.trim.evidence.store import Evidence, Recorded
from tools.plumb.trim.made_up import loaded
from tools.plumb.trim.request import Format, Request, weights
from tools.plumb.trim.run import run

TODAY = datetime.date(2027, 1, 1)
TARGETS = [
    test_target("//t:a_test", "x", "y", pool="h100", seconds=100, gpus=2),
    test_target("//t:b_test", "x", pool="h100", seconds=10),
]
WAIVER = '[[waiver]]\ncell = "y on sm90, per-commit"\nreason = "r"\nowner = "o"\nexpires = {}\n'
PATH = "tools/plumb/waivers.toml"


def ask(request: Request, files: dict[str, str] | None = None) -> ExitCode:
    return run(request, loaded(*TARGETS, files=files), TODAY)


def test_a_loss_fails_until_a_waiver_accepts_it(capsys: pytest.CaptureFixture[str]) -> None:
    request = Request(drop=("//t:a_test",))
    assert ask(request) is ExitCode.TESTS_FAILED
    assert "lost: y on sm90, per-commit, nothing covers it" in capsys.readouterr().out
    assert ask(request, {PATH: WAIVER.format("2027-01-01")}) is ExitCode.OK
    assert "Accepted by a waiver" in capsys.readouterr().out
    assert ask(request, {PATH: WAIVER.format("2026-12-31")}) is ExitCode.TESTS_FAILED
    assert "expired on 2026-12-31" in capsys.readouterr().out


def test_a_safe_deletion_is_answered_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(Request(drop=("//t:b_test",))) is ExitCode.OK
    assert "Nothing is lost that nobody accepted." in capsys.readouterr().out


@pytest.mark.parametrize("output", [Format.TEXT, Format.MARKDOWN])
def test_of_a_test_without_a_claim_nobody_says_that_nothing_is_lost(
    output: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [test_target(f"//t:{name}_test", seconds=1) for name in "cd"]
    ground = loaded(*TARGETS, *others)
    run(Request(drop=("//t:c_test",), output=output), ground, TODAY)
    said = capsys.readouterr().out
    assert "Nothing is lost" not in said
    assert "Unknown: 1 test that goes names no claim, so the graph cannot say what is lost" in said


def test_json_holds_what_the_text_says(capsys: pytest.CaptureFixture[str]) -> None:
    ask(Request(drop=("//t:a_test",), output=Format.JSON))
    content = json.loads(capsys.readouterr().out)
    assert content["saving"]["total"]["change"]["gpu_seconds"] == -200
    (dropped,) = content["dropped"]
    assert dropped["verdict"] == "loses"
    assert {c["claim"]: c["state"] for c in dropped["cells"]} == {"x": "kept", "y": "lost"}
    assert content["refused"] == ["lost: y on sm90, per-commit (nothing covers it)"]


def test_markdown_is_the_text_of_the_pull_request(capsys: pytest.CaptureFixture[str]) -> None:
    ask(Request(drop=("//t:a_test",), output=Format.MARKDOWN))
    text = capsys.readouterr().out
    assert text.startswith("## Trim: 1 test goes\n\n-100 s and -200 GPU-s. 1 cell lost")
    assert "| `y` | sm90 | per-commit | lost | nothing covers it |" in text
    assert "| `x` | sm90 | per-commit | `//t:b_test` |" in text
    assert "### To settle before this goes in" in text


def test_proposals_and_the_optimum_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(Request(propose=True)) is ExitCode.OK
    assert "Nothing to propose" in capsys.readouterr().out
    assert ask(Request(optimise=True)) is ExitCode.OK
    text = capsys.readouterr().out
    assert "optimal" in text and "drop //t:b_test: 10 s" in text
    assert ask(Request(optimise=True, budget=20, output=Format.JSON)) is ExitCode.OK
    choice = json.loads(capsys.readouterr().out)["choice"]
    assert choice["given_up"] == [{"claim": "y", "arch": "sm90", "cadence": "per-commit"}]


def test_the_optimum_gives_up_what_a_waiver_accepts_until_its_day(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def kept(expires: str) -> int:
        assert ask(Request(optimise=True, output=Format.JSON), waived(expires)) is ExitCode.OK
        return int(json.loads(capsys.readouterr().out)["choice"]["gpu_seconds"])

    def waived(expires: str) -> dict[str, str]:
        return {PATH: WAIVER.format(expires)}

    assert kept("2027-01-01") == 10
    assert kept("2026-12-31") == 200


def test_the_optimum_may_do_without_a_test_that_is_to_be_added(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ask(Request(optimise=True, add=("//t:b_test",), output=Format.JSON)) is ExitCode.OK
    content = json.loads(capsys.readouterr().out)
    assert content["dropped"] == []
    assert content["saving"]["total"]["change"]["tests"] == 0


def test_a_waiver_of_no_claim_is_refused_by_the_optimiser_too() -> None:
    with pytest.raises(PlumbError, match="unknown claim 'y_'"):
        ask(Request(optimise=True), {PATH: WAIVER.format("2027-01-01").replace("y on", "y_ on")})


def test_evidence_proves_names_exceptions_or_says_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "evidence.json"
    source = "a = 1\nb = 2\n"

    def kept(lines: set[int], killed: set[str]) -> Recorded:
        return Recorded(
            {"t::f": {"l.py": frozenset(lines)}}, frozenset({"f", "g"}), frozenset(killed)
        )

    def said(a: Recorded, b: Recorded, now: str = source) -> str:
        evidence = Evidence({"//t:a_test": a, "//t:b_test": b}, {"l.py": digest_of(source)})
        store.write(evidence, file)
        ask(Request(drop=("//t:b_test",), evidence=file), {"l.py": now})
        return capsys.readouterr().out

    both = kept({1, 2}, {"f", "g"})
    assert "proven equivalent" in said(both, kept({1}, {"f"}))
    worse = said(kept({1}, {"f"}), both)
    assert "not equivalent" in worse
    assert "only it runs l.py: 2" in worse and "only it kills g" in worse
    assert "recorded before l.py changed" in said(both, both, now="a = 2\n")
    assert "no planted fault was tried" in said(both, Recorded(both.contexts))
    ask(Request(drop=("//t:a_test",), evidence=file), {"l.py": source})
    assert "compared with 1 recorded" in capsys.readouterr().out


def test_a_test_without_evidence_is_not_proven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.write(Evidence({}, {}), tmp_path / "e.json")
    ask(Request(drop=("//t:b_test",), evidence=tmp_path / "e.json"))
    assert "nothing was recorded of it" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1}', '{"schema": 2, "tests": {}}'])
def test_a_file_that_is_no_evidence_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "e.json").write_text(text)
    with pytest.raises(PlumbError, match=r"plumb trim evidence record"):
        store.read(tmp_path / "e.json")


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(), "seen: none of them"),
        (Request(drop=("//a",), propose=True), "--drop, --merge or --add and --propose"),
        (Request(drop=("//a",), budget=3), "--budget says something of --optimise"),
        (Request(optimise=True, measured=Path("m")), "--measured says something of --propose"),
        (Request(propose=True, output=Format.MARKDOWN), "--format markdown"),
        (Request(optimise=True, weights=("a=1",)), "give one"),
        (Request(optimise=True, seconds=0), "--seconds 0: wanted a number above 0"),
        (Request(optimise=True, seconds=float("nan")), "--seconds nan: wanted a number above 0"),
        (Request(optimise=True, seconds=float("inf")), "--seconds inf: wanted a number above 0"),
    ],
)
def test_one_thing_is_asked_at_a_time(request_: Request, said: str) -> None:
    with pytest.raises(PlumbError) as error:
        ask(request_)
    assert said in str(error.value)


def test_weights_are_given_by_pattern() -> None:
    assert weights(("a.*=3", "a.b=0"), ["a.b", "a.c", "d"]) == {"a.b": 0, "a.c": 3}
    for wrong in ("a", "a=x", "z=1", "a=-1", "a=" + "1" * 5000):
        with pytest.raises(PlumbError, match="--weight"):
            weights((wrong,), ["a"])
