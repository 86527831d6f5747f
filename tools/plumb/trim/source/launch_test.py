import pytest

from tools.plumb.trim.source.launch import Launch, conflicts, launches, union
from tools.plumb.trim.source.syntax import parse


def launch(**flags: str) -> Launch:
    named = {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
    return Launch("launch_server", "m", named, 1)


@pytest.mark.parametrize(
    "text",
    [
        "launch_server('m', other_args=['--tp', '4', '--trust'])",
        "launch_server(model='m', args=['--tp=4', '--trust'])",
        "M = 'm'\nARGS = ['--tp', '4']\nlaunch_server(M, [*ARGS, '--trust'])",
        "ARGS = ['--trust']\nlaunch_server('m', ['--tp', '4'] + ARGS)",
        "class A:\n    m = 'm'\n    a = ['--tp', '4', '--trust']\n"
        "    def f(self):\n        launch_server(self.m, self.a)",
        "class A:\n    @classmethod\n    def setUpClass(cls):\n        cls.m = 'm'\n"
        "        cls.p = launch_server(cls.m, ['--tp', '4', '--trust'])",
        "def f():\n    a = ['--trust', '--tp', '4']\n    launch_server('m', a)",
    ],
)
def test_a_launch_is_read_through_the_names_that_the_source_sets(text: str) -> None:
    (found,) = launches(parse(text, "a"))
    assert (found.launcher, found.model) == ("launch_server", "m")
    assert dict(found.flags) == {"--tp": "4", "--trust": ""}


def test_keywords_of_an_engine_are_flags() -> None:
    (found,) = launches(parse("sgl.Engine(model_path='m', tp_size=2)", "a"))
    assert found == Launch("Engine", "m", {"tp_size": "2"}, 1)


def test_a_name_that_means_itself_ends() -> None:
    (found,) = launches(parse("m = m\nlaunch_server(m, ['--a', m])", "a"))
    assert found.model == "m"


def test_orthogonal_flags_make_one_server() -> None:
    merged = union(launch(tp="4", tokenizer_workers="8"), launch(tp="4", detokenizer_workers="4"))
    assert merged is not None and not merged.one_sided
    assert merged.common == {"--tp": "4"}
    assert merged.only_one == {"--tokenizer-workers": "8"}
    assert merged.only_other == {"--detokenizer-workers": "4"}


def test_one_with_a_flag_and_one_with_its_default_are_two_servers() -> None:
    merged = union(launch(tp="4", quantization="bf16"), launch(tp="4"))
    assert merged is not None and merged.one_sided


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (launch(backend="a"), launch(backend="b"), "--backend a and b"),
        (launch(enable_x=""), launch(disable_x=""), "both say something of x"),
        (launch(), Launch("launch_server", "n", {}, 1), "model m and n"),
        (launch(), Launch("Engine", "m", {}, 1), "started by launch_server and by Engine"),
    ],
)
def test_what_contradicts_itself_is_no_server(one: Launch, other: Launch, why: str) -> None:
    assert union(one, other) is None
    assert conflicts(one, other) == [why]
