from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.plumb.cells.load import of_file
from tools.plumb.errors import PlumbError


def message(name: str, kind: str, **attributes: Any) -> str:
    found = [
        {"name": key, "type": "STRING_LIST", "stringListValue": value}
        if isinstance(value, list)
        else {"name": key, "type": "STRING", "stringValue": value}
        for key, value in attributes.items()
    ]
    rule = {"name": name, "ruleClass": kind, "attribute": found, "ruleInput": []}
    return json.dumps({"type": "RULE", "rule": rule}) + "\n"


def test_a_graph_in_a_file_is_read_as_bazel_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    demands = ["cpu:per-commit"]
    file.write_text(
        message(
            "//c:q", "coverage_claim", claim="q", sentence="So.", level="layer", demands=demands
        )
        + message("//t:t", "py_test", tags=["covers:q", "seconds:3", "level:layer"])
    )
    (tmp_path / "tools/plumb").mkdir(parents=True)
    (tmp_path / "tools/plumb/pools.toml").write_text('[[pool]]\nname = "arm"\ntags = ["seconds:3"]')

    loaded = of_file(file, tmp_path)

    assert loaded.model.tests["//t:t"].pool == "arm"
    assert loaded.model.problems == ()
    assert loaded.text("tools/plumb/pools.toml") is not None
    assert loaded.text("tools/plumb/nothing") is None


@pytest.mark.parametrize(
    "content",
    [
        "no JSON",
        "[]",
        "[" * 100_000,
        '{"type": "ODD"}',
        '{"type": "RULE"}',
        message("//t:t", "py_test", tags=[5]),
    ],
    ids=lambda content: content[:20],
)
def test_another_file_is_refused_in_a_sentence(tmp_path: Path, content: str) -> None:
    file = tmp_path / "graph.json"
    file.write_text(content)

    with pytest.raises(PlumbError, match=r"cannot read a target graph from .*graph\.json"):
        of_file(file, None)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlumbError, match=r"nowhere.json: No such file"):
        of_file(tmp_path / "nowhere.json", None)
