import json

import pytest

from tools.plumb.deps.findings import Finding, Kind, matches, shorten
from tools.plumb.deps.report import as_json, lines

MISSING = Finding(
    Kind.MISSING,
    "//a:b_test",
    ("//a:b_test_cpu", "//a:b_test_h100"),
    "deps",
    "//a:core",
    "a/b_test.py:3",
    "import a.core",
)
BY_HAND = Finding(
    Kind.UNKNOWN, "//a:c", ("//a:c",), "", "", "a/c.py:1", "import z", "nobody knows z"
)


def test_a_finding_says_where_what_and_how_to_mend_it() -> None:
    assert list(lines([MISSING, BY_HAND], 2, "plumb")) == [
        "a/b_test.py:3: //a:b_test (b_test_cpu, b_test_h100) needs `import a.core`, "
        "and nothing declares it",
        "    add :core to deps: plumb deps fix //a:b_test",
        "a/c.py:1: //a:c needs `import z`",
        "    by hand: nobody knows z",
        "2 findings in 2 declarations. `plumb deps fix` mends 1; the other 1 by hand.",
    ]


def test_a_true_graph_is_one_sentence() -> None:
    assert [*lines([], 2, "plumb")] == [
        "Looked at 2 Python targets: the deps and data are what the sources need."
    ]
    assert [*lines([], 0, "plumb")] == ["There is no Python target here to look at."]


def test_json_holds_all_fields() -> None:
    content = json.loads(as_json([MISSING, BY_HAND], 7))

    assert (content["schema"], content["checked"]) == (1, 7)
    first, second = content["findings"]
    assert first["fix"] == "buildozer 'add deps :core' //a:b_test"
    assert (first["kind"], first["where"]) == ("missing", "a/b_test.py:3")
    assert second["fix"] is None


@pytest.mark.parametrize(
    ("label", "short"),
    [("//a:x", ":x"), ("//b:b", "//b"), ("//b:x", "//b:x"), ("@pip//x:pkg", "@pip//x:pkg")],
)
def test_a_label_is_written_as_short_as_beside_its_call(label: str, short: str) -> None:
    assert shorten(label, "//a:call") == short


@pytest.mark.parametrize("pattern", ["//a/b:c", "//a/b:all", "//a/b/...", "//a/...", "//..."])
def test_a_pattern_matches_what_bazel_would(pattern: str) -> None:
    assert matches("//a/b:c", [pattern])


@pytest.mark.parametrize("pattern", ["//a/b:d", "//a:all", "//a/bc/...", "//a/b"])
def test_a_pattern_matches_nothing_else(pattern: str) -> None:
    assert not matches("//a/b:c", [pattern])
