import pytest

from tools.plumb.errors import PlumbError
from tools.plumb.trim.source.settings import Setting, settings
from tools.plumb.trim.source.shape import differing_lines, likeness, shape
from tools.plumb.trim.source.syntax import parse

ONE = '''
"""What it says."""
class TestOne(Base):  # a comment
    def test_score(self):
        server = launch(MODEL, other_args=["--tp", "4", "--seed", "1"], timeout=60, retries=2)
        self.assertGreater(evaluate(server, 'mmlu'), 0.65)
'''
OTHER = '''
class TestOther(Base):
    def test_score(self):
        """Another docstring."""
        server = launch(MODEL, retries=2, timeout=60,
                        other_args=["--tp", "4", "--seed", "1", "--quantization", "bf16"])
        self.assertGreater(evaluate(server, "mmlu"), 0.7)
'''


def test_twins_differ_in_flags_constants_names_comments_and_order_of_keywords() -> None:
    one, other = (shape(parse(text, "a"), "a") for text in (ONE, OTHER))
    assert one.bare == other.bare
    assert likeness(one, other) == 1
    assert [line for line in differing_lines(one, other) if "assert" in line] == [
        "- self.assertGreater(evaluate(server, 'mmlu'), 0.65)",
        "+ self.assertGreater(evaluate(server, 'mmlu'), 0.7)",
    ]


@pytest.mark.parametrize(
    "text",
    [
        ONE.replace("assertGreater", "assertLess"),
        ONE.replace("evaluate(", "measure("),
        ONE.replace("MODEL", "OTHER_MODEL"),
        ONE + "\n    def test_more(self):\n        pass\n",
        ONE.replace("timeout=60", "timeout=limit"),
    ],
)
def test_another_call_name_or_case_is_another_shape(text: str) -> None:
    one, other = (shape(parse(t, "a"), "a") for t in (ONE, text))
    assert one.bare != other.bare


def test_the_settings_of_a_test_are_named_by_what_is_around_them() -> None:
    assert [(s.kind, s.name, s.value) for s in settings(parse(ONE, "a"))] == [
        ("flag", "--tp", "4"),
        ("flag", "--seed", "1"),
        ("argument", "launch(retries=…)", "2"),
        ("argument", "launch(timeout=…)", "60"),
        ("constant", "self.assertGreater(evaluate(server, …), …) (1.)", "'mmlu'"),
        ("threshold", "self.assertGreater(evaluate(server, …), …) (2.)", "0.65"),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("scores = {'low': 0.5}", "threshold"),
        ("assert ratio > 0.5", "threshold"),
        ("check(expected_score=0.5)", "threshold"),
        ("check(cuda_graph_max_bs=0.5)", "argument"),
        ("sleep(0.5)", "constant"),
    ],
)
def test_a_figure_that_a_run_is_held_to_is_a_threshold(text: str, kind: str) -> None:
    found: list[Setting] = settings(parse(text, "a"))
    assert [s.kind for s in found if s.value == "0.5"] == [kind]


def test_an_f_string_keeps_what_stands_in_its_braces() -> None:
    one, same, other = (
        shape(parse(text, "a"), "a") for text in ("f'a{x}'", "f'b{x:.2f}'", "f'a{y}'")
    )
    assert one.bare == same.bare != other.bare


def test_what_is_no_python_is_named_with_its_line() -> None:
    with pytest.raises(PlumbError, match=r"^a/b_test.py, line 2: no Python"):
        parse("x = 1\ndef (", "a/b_test.py")
