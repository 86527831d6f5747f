"""The command line: what it refuses, with which sentence and code, and never a traceback."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.plumb import cli

Ask = Callable[..., tuple[int, str, str]]
TAGS = ["gpu", "gpus:1", "sm:sm90", "seconds:5", "cadence:per-commit"]


def message(name: str, *tags: str) -> str:
    attribute = {"name": "tags", "type": "STRING_LIST", "stringListValue": [*TAGS, *tags]}
    rule = {"name": name, "ruleClass": "py_test", "ruleInput": [], "attribute": [attribute]}
    return json.dumps({"type": "RULE", "rule": rule}) + "\n"


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    graph = tmp_path / "graph.jsonl"
    graph.write_text(message("//t:a_test", "covers:x") + message("//t:b_test", "covers:x"))

    def run(*arguments: str) -> tuple[int, str, str]:
        given = ["plumb", "trim", *arguments, "--graph", str(graph), "--workspace", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", given)
        with pytest.raises(SystemExit) as end:
            cli.main()
        seen = capsys.readouterr()
        assert "Traceback" not in seen.err
        return int(end.value.code or 0), seen.out, " ".join(seen.err.split())

    return run


def test_a_question_is_answered(ask: Ask) -> None:
    code, out, _ = ask("--drop", "//t:a_test")
    assert code == 0 and "Nothing is lost" in out
    code, out, _ = ask("--drop", "//t/...", "--format", "markdown")
    assert code == 3 and "| `x` | sm90 | per-commit | lost |" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "plumb trim takes one of"),
        (("--drop", "//t:a_tst"), "there is no test '//t:a_tst'; did you mean //t:a_test"),
        (("--drop", "//t:a_test", "--propose"), "seen: --drop, --merge or --add and --propose"),
        (("--merge", "//t:a_test"), "wanted A+B"),
        (("--merge", "//t:a_test+//t:b_test=" + "1" * 5000), "wanted whole seconds"),
        (("--merge", "//t:a_test+//t:b_test"), "//t:a_test starts no server"),
        (("--optimise", "--budget", "-1"), "wanted GPU-seconds of 0 or more"),
        (("--optimise", "--keep", "//t:a_test", "--budget", "1"), "takes 5 GPU-seconds"),
        (("--propose", "--measured", "missing.jsonl"), "cannot read measured seconds"),
        (("--drop", "//t:a_test", "--evidence", "missing.json"), "cannot read evidence"),
    ],
)
def test_a_mistake_is_named_with_what_is_wanted(
    ask: Ask, arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = ask(*arguments)
    assert code == 2 and said in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[waiver]", "is no TOML"),
        (
            '[[waiver]]\ncell = "y on sm90, per-commit"\nreason = "r"\nowner = "o"\n'
            "expires = 2027-01-01\n",
            "unknown claim 'y'",
        ),
    ],
)
def test_a_wrong_waiver_is_refused(ask: Ask, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "tools/plumb").mkdir(parents=True)
    (tmp_path / "tools/plumb/waivers.toml").write_text(text)
    code, _, err = ask("--drop", "//t:a_test")
    assert code == 2 and said in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no graph\n", "cannot read a target graph"),
        (message("//t:a_test", "seconds:9"), "contradict"),
        (message("//t:a_test").replace("py_test", "py_library"), "has no test"),
    ],
)
def test_a_wrong_graph_is_refused(ask: Ask, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "graph.jsonl").write_text(text)
    code, _, err = ask("--propose")
    assert code == 2 and said in err


def test_a_source_that_is_no_python_is_named(ask: Ask, tmp_path: Path) -> None:
    source = {"name": "srcs", "type": "LABEL_LIST", "stringListValue": ["//t:a_test.py"]}
    rule = json.loads(message("//t:a_test", "covers:x"))
    rule["rule"]["attribute"].append(source)
    (tmp_path / "graph.jsonl").write_text(json.dumps(rule) + "\n")
    (tmp_path / "t").mkdir()
    (tmp_path / "t/a_test.py").write_text("def (\n")
    code, _, err = ask("--propose")
    assert code == 2 and "t/a_test.py, line 1: no Python" in err
