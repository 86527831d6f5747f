from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.plumb.cells.made_up import claim_target, graph_of, suite_target, test_target
from tools.plumb.coverage.made_up import LINEAR, LOADER, write


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("ws"))


def plumb(graph: Path, *arguments: str, columns: int = 160) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.plumb", "coverage", "--graph", str(graph)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": str(columns)}
    done = subprocess.run(
        [*command, "--workspace", str(graph.parent), *arguments],
        env=environment,
        cwd=graph.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def test_the_matrix_has_a_row_a_claim_and_totals(graph: Path) -> None:
    done = plumb(graph)

    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if LINEAR in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        LINEAR,
        "layer",
        "1: 6 s",
        "2: 25 s",
        "·",
        "missing",
        "45",
    ]
    assert "3 of 6 demanded cells covered, 1 more that no claim demands" in done.stdout
    assert "4 tests, 61 s, 75 GPU-s" in done.stdout


def test_a_narrow_terminal_cuts_no_name(graph: Path) -> None:
    done = plumb(graph, columns=40)

    assert any(LINEAR in line and "2: 25 s" in line for line in done.stdout.splitlines())


def test_a_few_claims_are_shown_down_to_the_line_of_the_source(graph: Path) -> None:
    done = plumb(graph, "--claim", "*.linear")

    assert "int8 linear layers give the checkpoint's <product>." in done.stdout
    assert "//quant:a_test_cpu  6 s quant/BUILD.bazel:7" in done.stdout
    assert "quant/a_test_cpu.py:8" in done.stdout
    assert "sm100, per-commit: missing, only another architecture" in done.stdout


def test_missing_lists_reasons_and_ends_with_3(graph: Path) -> None:
    done = plumb(graph, "--missing")

    assert done.returncode == 3
    assert done.stdout.splitlines() == [
        "only another architecture (1)",
        f"  {LINEAR}  sm100  per-commit  //quant/deep:d_test_h100",
        "",
        "only nightly (1)",
        f"  {LOADER}  sm90  per-commit  //quant:n_test_h100",
        "",
        "nothing covers it (1)",
        "  serve.accuracy  sm90  nightly",
        "",
        "3 of 6 demanded cells are not covered.",
    ]


def test_nothing_missing_ends_with_0(graph: Path) -> None:
    done = plumb(graph, "--missing", "--pool", "cpu")

    assert (done.returncode, done.stdout) == (0, "Each of 2 demanded cells is covered.\n")


def test_the_json_holds_cells_tests_and_lines(graph: Path) -> None:
    content = json.loads(plumb(graph, "--format", "json").stdout)

    assert content["schema"] == 1
    assert content["totals"]["missing"] == 3
    linear = next(claim for claim in content["claims"] if claim["name"] == LINEAR)
    assert linear["cells"][2] == {
        "arch": "sm100",
        "cadence": "per-commit",
        "demanded": True,
        "covered": False,
        "reason": "other_architecture",
        "because": "only another architecture",
        "tests": [],
        "near": [
            {"test": "//quant/deep:d_test_h100", "lacks": ["other_architecture"]},
            {"test": "//quant:a_test_cpu", "lacks": ["other_architecture"]},
            {"test": "//quant:a_test_h100", "lacks": ["other_architecture"]},
        ],
    }
    assert content["tests"]["//quant:a_test_cpu"]["sources"] == [
        {
            "path": "quant/a_test_cpu.py",
            "tests": [{"line": 8, "name": "test_products"}, {"line": 12, "name": "test_rows"}],
        }
    ]


def test_json_of_what_is_missing_keeps_the_totals(graph: Path) -> None:
    done = plumb(graph, "--missing", "--format", "json")

    content = json.loads(done.stdout)
    assert done.returncode == 3
    assert (content["totals"]["demanded"], content["totals"]["missing"]) == (6, 3)
    assert [len(claim["cells"]) for claim in content["claims"]] == [1, 1, 1]


@pytest.mark.parametrize("kind", ["text", "json", "html"])
def test_the_answer_can_go_to_a_file(graph: Path, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "answer"

    done = plumb(graph, "--format", kind, "--output", str(file))

    assert (done.returncode, done.stdout) == (0, "")
    assert LINEAR in file.read_text()


def test_a_file_is_written_where_the_user_is(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))

    done = plumb(graph, "--format", "json", "--output", "answer.json")

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "answer.json").read_text())["schema"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--claim", "quant.int8.liner"], "no claim matches 'quant.int8.liner': did you mean"),
        (["--test", "nothing_*"], "no test matches 'nothing_*'"),
        (["--pool", "h200"], "no test runs in pool 'h200': did you mean h100?"),
        (["--package", "//nowhere"], "no test is in package '//nowhere'"),
        (["--at", "HEAD"], "--at and --graph name two graphs; give one of them."),
    ],
)
def test_what_cannot_be_meant_ends_with_2(graph: Path, arguments: list[str], message: str) -> None:
    done = plumb(graph, *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())


def test_an_answer_that_cannot_be_written_ends_with_36(graph: Path, tmp_path: Path) -> None:
    done = plumb(graph, "--format", "html", "--output", str(tmp_path / "no" / "file"))

    assert done.returncode == 36
    assert "No such file or directory" in done.stderr


def test_an_answer_that_cannot_be_written_whole_leaves_the_old_one(
    graph: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    done = plumb(graph, "--format", "html", "--output", str(folder))

    assert (done.returncode, list(tmp_path.iterdir())) == (36, [folder])
    assert "Is a directory. Name a file that you may write" in " ".join(done.stderr.split())


def test_declarations_that_contradict_themselves_are_no_success(tmp_path: Path) -> None:
    twice = test_target("//q:t", "a", tags=("cadence:nightly",))
    graph = write(tmp_path / "ws", graph_of(twice, suite_target("//q:nightly")))

    done = plumb(graph)

    said = " ".join(done.stderr.split())
    assert done.returncode == 3
    assert "tags 'cadence:per-commit' and 'cadence:nightly' contradict each other" in said
    assert "suite //q:nightly holds no test at all, and would pass" in said


@pytest.mark.parametrize("arguments", [[], ["--missing"], ["--detail"]])
def test_names_are_no_markup(tmp_path: Path, arguments: list[str]) -> None:
    odd = claim_target("a[/b]", "cpu:per-commit", "sm[/c]:per-commit")
    graph = write(tmp_path / "ws", graph_of(odd, test_target("//q:t", "a[/b]")))

    done = plumb(graph, *arguments)

    assert done.returncode in (0, 3), done.stderr
    assert "a[/b]" in done.stdout and "sm[/c]" in done.stdout


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 10, "²", "-1"])
def test_a_number_that_is_none_is_named_and_taken_for_undeclared(
    tmp_path: Path, number: str
) -> None:
    graph = write(tmp_path / "ws", graph_of(test_target("//q:t", "a", tags=(f"gpus:{number}",))))

    done = plumb(graph, "--format", "json")

    assert done.returncode == 3 and json.loads(done.stdout)["tests"]["//q:t"]["gpus"] in (0, 1)
    assert "wanted a whole number from 1 to 999999999" in " ".join(done.stderr.split())


def test_missing_without_any_demand_is_an_error(tmp_path: Path) -> None:
    graph = write(tmp_path / "ws", graph_of(test_target("//q:t", "a")))

    done = plumb(graph, "--missing")

    assert done.returncode == 2
    assert "no claim demands any of these cells" in " ".join(done.stderr.split())


def test_an_empty_graph_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text("")

    done = plumb(file)

    assert done.returncode == 2
    assert "the workspace has no tests" in done.stderr
