from __future__ import annotations

from dataclasses import replace

from tools.plumb.truth import figures
from tools.plumb.truth.measure import Step


def step(kind: str, executed: str, plumb: str, rdeps: str) -> Step:
    return Step((kind,), *(frozenset(names.split()) for names in (executed, plumb, rdeps)))


STEPS = [
    step("source edit", "a b", "a b", "a"),
    step("executable bit", "", "a", ""),
    step("target added", "c", "d", ""),
]


def test_recall_and_precision_are_over_all_tests_of_all_steps() -> None:
    found = figures.score(STEPS, lambda step: step.plumb)

    assert (found.right, found.named, found.executed) == (2, 4, 3)
    assert (found.recall, found.precision) == (2 / 3, 0.5)


def test_without_tests_nothing_is_missed() -> None:
    found = figures.score([], lambda step: step.plumb)

    assert (found.recall, found.precision) == (1.0, 1.0)


def test_the_table_counts_apart_what_is_asked_for_and_says_why() -> None:
    rows = figures.table(STEPS).splitlines()[1:]

    assert ["(3)" in row for row in rows[:6]] == [True, True, False, False, False, False]
    assert rows[0].split()[-4:] == ["0.667", "0.500", "1", "2"]
    assert rows[2].split()[-4:] == ["0.667", "0.667", "1", "1"]
    assert "  executable bit: Bazel does not notice it, but what runs the file does" in rows


def test_the_precise_answer_has_rows_of_its_own() -> None:
    narrowed = [replace(one, precise=one.plumb & one.executed) for one in STEPS[:2]]
    rows = figures.table(narrowed).splitlines()

    assert rows[2].startswith("plumb --precise, every change (2)")
    assert rows[2].split()[-4:] == ["1.000", "1.000", "0", "0"]
    assert figures.wrong(replace(STEPS[0], precise=frozenset("a"))) == (
        "source edit: missed by --precise: b"
    )


def test_a_wrong_answer_names_what_was_missed() -> None:
    assert figures.wrong(STEPS[0]) == ""
    assert figures.wrong(STEPS[2]) == "target added: missed 1: c; extra 1: d"
