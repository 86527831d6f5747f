import pytest

from tools.plumb.trim.source.cases import collect
from tools.plumb.trim.source.conditions import Machine
from tools.plumb.trim.source.syntax import parse

H100 = Machine("h100", "sm90", 1)
B200 = Machine("b200", "sm100", 1)
CPU = Machine("cpu", "cpu", 0)


def skipped(condition: str, machine: Machine, before: str = "") -> bool:
    text = f"{before}\n@unittest.skipIf({condition}, 'why')\ndef test_it(): pass"
    collected = collect(parse(text, "a"))
    return collected.cases[0].skip_on(machine, collected.names) is not None


@pytest.mark.parametrize(
    ("condition", "where"),
    [
        ("is_in_ci()", {H100, B200, CPU}),
        ("os.environ.get('CI') == 'true'", {H100, B200, CPU}),
        ("bool(os.getenv('CI'))", {H100, B200, CPU}),
        ("'CI' in os.environ", {H100, B200, CPU}),
        ("not is_in_ci()", set()),
        ("True", {H100, B200, CPU}),
        ("get_device_sm() >= 100", {B200}),
        ("torch.cuda.get_device_capability() >= (10, 0)", {B200}),
        ("torch.cuda.get_device_capability()[0] < 10", {H100}),
        ("not torch.cuda.is_available()", {CPU}),
        ("torch.cuda.device_count() < 2", {H100, B200, CPU}),
        ("is_sm100_supported()", {B200}),
        ("is_hip() or pool() == 'h100'", {H100}),
        ("80 <= get_device_sm() < 100 and is_in_ci()", {H100}),
        ("some_flag()", set()),
        ("some_flag() and False", set()),
        ("os.environ.get('FULL') is None", set()),
        ("get_device_sm() > 'x'", set()),
    ],
)
def test_a_condition_holds_where_the_source_alone_says_so(
    condition: str, where: set[Machine]
) -> None:
    assert {m for m in (H100, B200, CPU) if skipped(condition, m)} == where


def test_a_condition_may_have_a_name() -> None:
    assert skipped("SLOW", H100, "SLOW = is_in_ci()")
    assert not skipped("SLOW", H100, "SLOW = SLOW")


@pytest.mark.parametrize(
    "text",
    [
        "@unittest.skip('why')\nclass TestA:\n    def test_it(self): pass",
        "@pytest.mark.skip(reason='why')\ndef test_it(): pass",
        "pytestmark = pytest.mark.skipif(True, reason='why')\ndef test_it(): pass",
        "pytestmark = [pytest.mark.skip('why')]\ndef test_it(): pass",
        "class TestA:\n    pytestmark = pytest.mark.skip('why')\n    def test_it(self): pass",
        "class A(unittest.TestCase):\n    def setUp(self):\n        self.skipTest('why')\n"
        "    def test_it(self): pass",
        "class A(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n"
        "        if is_in_ci():\n            raise unittest.SkipTest('why')\n"
        "    def test_it(self): pass",
        "def test_it():\n    pytest.skip('why')",
        "@unittest.skipUnless(False, 'why')\ndef test_it(): pass",
    ],
)
def test_every_way_to_skip_is_known_with_its_reason(text: str) -> None:
    collected = collect(parse(text, "a"))
    (case,) = collected.cases
    skip = case.skip_on(H100, collected.names)
    assert skip is not None and skip.reason == "why"


def test_a_skip_of_one_case_leaves_the_others() -> None:
    text = "@pytest.mark.skip('a')\ndef test_a(): pass\ndef test_b(): pass"
    collected = collect(parse(text, "a"))
    assert [bool(c.skip_on(H100, collected.names)) for c in collected.cases] == [True, False]


def test_cases_are_those_that_would_be_collected() -> None:
    text = (
        "class Base(unittest.TestCase):\n    def test_a(self): pass\n"
        "class Derived(Base):\n    def test_b(self): pass\n"
        "class Helper:\n    def test_c(self): pass\n"
        "def helper(): pass\ndef test_d(): pass\n"
    )
    names = [case.name for case in collect(parse(text, "a")).cases]
    assert names == ["Base.test_a", "Derived.test_a", "Derived.test_b", "test_d"]


def test_a_test_that_a_later_one_of_the_same_name_replaces_is_shadowed() -> None:
    text = "def test_a(): pass\n\ndef test_a(): pass\n"
    collected = collect(parse(text, "a"))
    assert collected.shadowed == (("test_a", 1),)
    assert [case.line for case in collected.cases] == [3]
