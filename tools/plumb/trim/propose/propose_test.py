"""Candidates in made-up workspaces."""

from dataclasses import replace
from pathlib import Path

import pytest

from tools.plumb.cells.made_up import test_target
from tools.plumb.cells.model import Model, Test
from tools.plumb.errors import PlumbError
from tools.plumb.graph import SOURCE, Target
from tools.plumb.history.opening import open_store
from tools.plumb.history.store import Attempt
from tools.plumb.trim.made_up import ground_of
from tools.plumb.trim.propose import dead, dominated, servers, stale, twins
from tools.plumb.trim.run import merges_of

TEXT = """
class Test{0}(Base):
    def test_score(self):
        with launch_server("m", ["--tp", "2", "--{1}"]) as server:
            score = evaluate(server, "mmlu")
            self.assertGreater(score, {2})
"""


def on_h100(name: str, *covers: str, seconds: int = 10, **others: object) -> Target:
    return test_target(f"//t:{name}_test", *covers, pool="h100", seconds=seconds, **others)  # type: ignore[arg-type]


def test_twins_are_shown_with_the_lines_that_differ_and_the_dearer_goes() -> None:
    files = {"t/a_test.py": TEXT.format("A", "x", 0.5), "t/b_test.py": TEXT.format("B", "y", 0.6)}
    ground = ground_of(on_h100("a", seconds=10), on_h100("b", seconds=99), files=files)
    (found,) = twins.candidates(ground.sources)
    assert found.title == "t/b_test.py and t/a_test.py are of one shape"
    assert found.tests == ("//t:b_test", "//t:a_test") and found.gpu_seconds == 99
    assert "  flag --x: (set) against (not set)" in found.evidence
    assert any("0.5 against 0.6" in doubt for doubt in found.doubts)


def test_a_twin_with_a_case_more_is_near_and_the_case_is_shown() -> None:
    more = TEXT.format("B", "x", 0.5) + "    def test_more(self):\n        check(1)\n"
    files = {"t/a_test.py": TEXT.format("A", "x", 0.5), "t/b_test.py": more}
    ground = ground_of(on_h100("a"), on_h100("b"), files=files)
    (found,) = twins.candidates(ground.sources)
    assert "alike in" in found.title
    assert any("+ def test_more(self): / + check(1)" in doubt for doubt in found.doubts)


def test_flags_that_differ_are_no_doubt_of_a_threshold() -> None:
    texts = {n: TEXT.format(n, "x", 0.5) for n in "ab"}
    files = {f"t/{n}_test.py": text for n, text in texts.items()}
    files["t/b_test.py"] = texts["b"].replace('"2"', '"4"')
    ground = ground_of(on_h100("a"), on_h100("b"), files=files)
    (found,) = twins.candidates(ground.sources)
    assert found.doubts == () and "  flag --tp: 2 against 4" in found.evidence


def test_small_files_and_those_that_share_half_their_lines_are_no_twins() -> None:
    small = {f"t/{n}_test.py": "def test_it(): pass" for n in "ab"}
    assert twins.candidates(ground_of(on_h100("a"), on_h100("b"), files=small).sources) == []
    half = TEXT.format("B", "x", 0.5) + "".join(
        f"    def test_{n}(self): f{n}()\n" for n in "cdefg"
    )
    files = {"t/a_test.py": TEXT.format("A", "x", 0.5), "t/b_test.py": half}
    ground = ground_of(on_h100("a"), on_h100("b"), files=files)
    assert twins.candidates(ground.sources) == []


def test_files_of_two_architectures_are_no_twins() -> None:
    files = {f"t/{n}_test.py": TEXT.format(n, "x", 0.5) for n in "ab"}
    ground = ground_of(on_h100("a"), test_target("//t:b_test", pool="b200"), files=files)
    assert twins.candidates(ground.sources) == []


def test_servers_that_differ_in_orthogonal_flags_can_be_one() -> None:
    files = {f"t/{n}_test.py": TEXT.format(n, n, 0.5) for n in "abc"}
    files["t/c_test.py"] = files["t/c_test.py"].replace('"2"', '"4"')
    ground = ground_of(*(on_h100(n) for n in "abc"), files=files)
    (found,) = servers.candidates(ground.sources)
    assert set(found.tests) == {"//t:a_test", "//t:b_test"}
    assert "one server: --a --b --tp 2" in found.evidence
    assert [merge.labels for merge in merges_of(ground)] == [found.tests]


def test_servers_of_which_one_is_the_default_or_never_starts_are_not_proposed() -> None:
    files = {f"t/{n}_test.py": TEXT.format(n, n, 0.5) for n in "ab"}
    disabled = on_h100("b", tags=("disabled",))
    assert servers.candidates(ground_of(on_h100("a"), disabled, files=files).sources) == []
    files["t/b_test.py"] = files["t/b_test.py"].replace(', "--b"', "")
    ground = ground_of(on_h100("a"), on_h100("b"), files=files)
    assert servers.candidates(ground.sources) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@unittest.skipIf(is_in_ci(), 'slow')\nclass TestA:\n    def test_a(self): pass", "slow"),
        ("@unittest.skipIf(get_device_sm() < 100, 'b200')\ndef test_a(): pass", "sm90"),
        ("@pytest.mark.skip('broken')\ndef test_a(): pass", "always: broken"),
    ],
)
def test_what_no_pool_of_its_own_can_run_is_dead(text: str, said: str) -> None:
    ground = ground_of(on_h100("a", seconds=30), files={"t/a_test.py": text})
    (found,) = dead.candidates(ground.sources, ground.graph)
    assert any(said in line for line in found.evidence)
    assert found.gpu_seconds == 30 and not found.doubts


def test_a_dead_class_beside_a_living_one_saves_nothing() -> None:
    text = "@pytest.mark.skip('x')\nclass TestA:\n    def test_a(self): pass\ndef test_b(): pass"
    ground = ground_of(on_h100("a"), files={"t/a_test.py": text})
    (found,) = dead.candidates(ground.sources, ground.graph)
    assert "TestA never runs in CI (1 of 2 cases)" in found.title
    assert found.seconds == 0 and found.doubts


def test_what_one_pool_runs_is_alive() -> None:
    text = "@unittest.skipIf(get_device_sm() < 100, 'b200')\ndef test_a(): pass"
    both = [on_h100("a"), test_target("//t:a_test_b200", pool="b200")]
    both[1].attributes["srcs"][0] = "//t:a_test.py"
    ground = ground_of(*both, files={"t/a_test.py": text})
    assert dead.candidates(ground.sources, ground.graph) == []


def test_what_only_a_disabled_test_would_run_is_dead() -> None:
    text = "@unittest.skipIf(get_device_sm() < 100, 'b200')\ndef test_a(): pass"
    disabled = test_target("//t:a_test_b200", pool="b200", tags=("disabled",))
    disabled.attributes["srcs"][0] = "//t:a_test.py"
    ground = ground_of(on_h100("a"), disabled, files={"t/a_test.py": text})
    titles = [c.title for c in dead.candidates(ground.sources, ground.graph)]
    assert "t/a_test.py:2: test_a never runs in CI (1 of 1 cases)" in titles


def test_a_file_that_starts_a_server_and_defines_no_test_is_dead() -> None:
    ground = ground_of(on_h100("a"), files={"t/a_test.py": "launch_server('m', ['--tp', '2'])"})
    (found,) = dead.candidates(ground.sources, ground.graph)
    assert found.title == "t/a_test.py: nothing is collected"


def test_disabled_unlisted_and_shadowed_tests_are_dead() -> None:
    files = {"t/a_test.py": "def test_a(): pass\ndef test_a(): pass"}
    ground = ground_of(
        on_h100("a"),
        on_h100("b", tags=("disabled: flaky",)),
        Target("//t:lost_test.py", SOURCE, "", {}, ()),
        files=files,
    )
    titles = [c.title for c in dead.candidates(ground.sources, ground.graph)]
    assert titles == [
        "//t:b_test never runs",
        "t/a_test.py:1: test_a is never collected",
        "t/lost_test.py is never collected",
    ]


def test_a_dominated_test_is_covered_by_cheaper_ones_together() -> None:
    ground = ground_of(
        on_h100("a", "x", "y", seconds=100),
        on_h100("b", "x", seconds=10),
        on_h100("c", "y", seconds=20),
        on_h100("d", "z", seconds=500),
    )
    (found,) = dominated.candidates(ground.model)
    assert found.tests == ("//t:a_test", "//t:b_test", "//t:c_test")
    assert found.gpu_seconds == 100


def test_of_two_tests_of_one_price_neither_dominates() -> None:
    ground = ground_of(on_h100("a", "x"), on_h100("b", "x"))
    assert dominated.candidates(ground.model) == []


def test_a_test_of_unknown_length_dominates_nothing() -> None:
    known = Test("//t:a", "h100", "sm90", 1, 10, covers=("x",))
    unknown = replace(known, label="//t:b", seconds=None)
    assert dominated.candidates(Model({}, {t.label: t for t in (known, unknown)})) == []


def test_stale_seconds_are_those_twice_off_by_the_runs_p90(tmp_path: Path) -> None:
    file = tmp_path / "measured.jsonl"
    rows = [("//t:a_test", s) for s in [10] * 8 + [1146, 1146]]
    rows += [("//t:b_test", 15), ("//t:c_test", 11), ("//t:d_test", 13), ("//t:unknown_test", 3)]
    file.write_text("".join(f'{{"target": "{t}", "seconds": {s}}}\n' for t, s in rows))
    ground = ground_of(
        on_h100("a", seconds=450),
        on_h100("b", seconds=300),
        on_h100("c", seconds=10),
        on_h100("d", seconds=4),
    )
    found = stale.candidates(ground.model, stale.read(file))
    assert [c.title for c in found] == [
        "//t:b_test declares 300 s and takes 15 s",
        "//t:a_test declares 450 s and takes 1146 s",
    ]


def test_a_history_says_how_long_the_runs_that_passed_took(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    with open_store(file, create=True) as store:
        for number, (ms, status) in enumerate(
            [(90_000, "PASSED"), (100_000, "PASSED"), (1, "FAILED")]
        ):
            store.add(Attempt("//t:a_test", number, ms, status, "h100", str(number)))
    (found,) = stale.candidates(ground_of(on_h100("a", seconds=20)).model, stale.read(file))
    assert found.title == "//t:a_test declares 20 s and takes 99 s"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no measurement"),
        ("{", "line 1 is no JSON"),
        ('{"target": "//a"}', "line 1 is"),
        ('{"target": "//a", "seconds": -1}', "wanted"),
        ('{"target": "//a", "seconds": true}', "wanted"),
        ('{"target": "//a", "seconds": NaN}', "wanted"),
        ("[]", "wanted"),
    ],
)
def test_a_file_that_holds_no_measurements_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "measured.jsonl"
    file.write_text(text)
    with pytest.raises(PlumbError, match=said):
        stale.read(file)
    with pytest.raises(PlumbError, match="cannot read measured seconds"):
        stale.read(tmp_path / "missing")
