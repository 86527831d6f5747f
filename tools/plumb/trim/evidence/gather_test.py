"""Records of tests, in folders like Bazel's."""

import hashlib
import json
from pathlib import Path

import pytest
from coverage import CoverageData

from tools.plumb.errors import PlumbError
from tools.plumb.trim.evidence import store
from tools.plumb.trim.evidence.command import logs_of
from tools.plumb.trim.evidence.gather import gather, inside_workspace, label_of
from tools.plumb.trim.evidence.lines import numbers, ranges

SOURCE = "a = 1\nb = 2\n"


def record(folder: Path, file: str, lines: dict[str, list[int]], kills: str = "") -> None:
    outputs = folder / "test.outputs"
    outputs.mkdir(parents=True)
    data = CoverageData(basename=str(outputs / "lines.coverage"))
    for context, found in lines.items():
        data.set_context(context)
        data.add_lines({file: found})
    data.write()
    if kills:
        (outputs / "kills.jsonl").write_text(kills)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws/layers").mkdir(parents=True)
    (tmp_path / "ws/layers/a.py").write_text(SOURCE)
    return tmp_path / "ws"


def test_lines_of_shards_and_of_a_functions_parameters_are_brought_together(
    tmp_path: Path, workspace: Path
) -> None:
    logs = tmp_path / "testlogs"
    here = str(workspace / "layers/a.py")
    there = "/x/sandbox/1/execroot/_main/bazel-out/bin/t/a_test.runfiles/_main/layers/a.py"
    record(logs / "t/a_test/shard_1_of_2", here, {"": [0, 1], "t.py::f[x-1]|run": [2, 3]})
    record(
        logs / "t/a_test/shard_2_of_2",
        there,
        {"t.py::f[y]|setup": [4], "t.py::g|run": [9]},
        '{"fault": "f", "killed": true}\n{"fault": "g", "killed": false}\n',
    )
    found = gather(logs, workspace)
    recorded = found.tests["//t:a_test"]
    assert recorded.contexts == {
        "": {"layers/a.py": {1}},
        "t.py::f": {"layers/a.py": {2, 3, 4}},
        "t.py::g": {"layers/a.py": {9}},
    }
    assert recorded.lines == {"layers/a.py": {1, 2, 3, 4, 9}}
    assert recorded.planted == {"f", "g"}
    assert recorded.killed == {"f"}
    assert found.files == {"layers/a.py": hashlib.sha256(SOURCE.encode()).hexdigest()}
    store.write(found, tmp_path / "e.json")
    assert store.read(tmp_path / "e.json") == found


def test_a_tests_own_sources_are_of_the_evidence(tmp_path: Path, workspace: Path) -> None:
    logs = tmp_path / "logs"
    record(logs / "t/b_test", str(workspace / "layers/a.py"), {"c": [1]})
    (workspace / "t").mkdir()
    (workspace / "t/b_test.py").write_text("assert True\n")
    sources = {"//t:b_test": ["t/b_test.py"], "//t:never_ran": ["t/other.py"]}
    found = gather(logs, workspace, None, sources)
    assert found.files["t/b_test.py"] == hashlib.sha256(b"assert True\n").hexdigest()
    assert "t/other.py" not in found.files


def test_only_the_tests_asked_for_are_gathered(tmp_path: Path, workspace: Path) -> None:
    for name in "ab":
        record(tmp_path / f"logs/t/{name}_test", str(workspace / "layers/a.py"), {"c": [1]})
    assert list(gather(tmp_path / "logs", workspace, ["//t:b_test"]).tests) == ["//t:b_test"]
    with pytest.raises(PlumbError, match="recorded lines or faults"):
        gather(tmp_path / "logs", workspace, ["//t:c_test"])


@pytest.mark.parametrize("kills", ["{", "[]", '{"fault": "f"}'])
def test_a_damaged_record_is_named(tmp_path: Path, workspace: Path, kills: str) -> None:
    record(tmp_path / "logs/t/a_test", str(workspace / "layers/a.py"), {"c": [1]}, kills)
    with pytest.raises(PlumbError, match=r"kills.jsonl, line 1: wanted .*run the test again"):
        gather(tmp_path / "logs", workspace)
    (tmp_path / "logs/t/a_test/test.outputs/lines.coverage").write_text("no database")
    (tmp_path / "logs/t/a_test/test.outputs/kills.jsonl").unlink()
    with pytest.raises(PlumbError, match=r"lines.coverage is damaged"):
        gather(tmp_path / "logs", workspace)


def test_labels_and_paths_follow_from_where_things_lie() -> None:
    logs, ws = Path("/logs"), Path("/ws")
    assert label_of(logs / "a/b/c_test/test.outputs/k", logs) == "//a/b:c_test"
    assert label_of(logs / "a/b/c_test/run_1_of_3/test.outputs/k", logs) == "//a/b:c_test"
    assert label_of(logs / "a/k", logs) is None
    assert inside_workspace("/ws/layers/a.py", ws) == "layers/a.py"
    assert inside_workspace("/usr/lib/python3/a.py", ws) is None


def test_logs_lie_where_the_build_events_say() -> None:
    said = {"name": "test.log", "uri": "file:///o%20b/bin/testlogs/a/b_test/test.log"}
    events = [{"started": {}}, {"testResult": {"testActionOutput": [{"name": "test.xml"}, said]}}]
    assert logs_of("\n".join(map(json.dumps, events))) == Path("/o b/bin/testlogs")
    with pytest.raises(PlumbError, match="no test's log"):
        logs_of('{"started": {}}')


def test_lines_are_kept_as_runs() -> None:
    assert ranges([7, 1, 2, 3, 9, 10]) == ["1-3", "7", "9-10"]
    assert numbers(["1-3", "7"]) == {1, 2, 3, 7}
