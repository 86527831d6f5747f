from __future__ import annotations

from tools.plumb.cells.model import Test
from tools.plumb.coverage.made_up import SOURCE
from tools.plumb.coverage.sources import Source, sources


def test_each_test_function_has_its_line() -> None:
    test = Test("//q:t", srcs=("//q:helpers.py", "//q:t.py"))
    files = {"q/helpers.py": "def help():\n    pass\n", "q/t.py": SOURCE}

    found = sources(test, files.get)

    assert found == (Source("q/t.py", ((8, "test_products"), (12, "test_rows"))),)
    assert found[0].place == "q/t.py:8"


def test_methods_and_coroutines_count() -> None:
    text = "class TestA:\n    def test_a(self):\n        pass\n\nasync def test_b():\n    pass\n"

    assert sources(Test("//q:t", srcs=("//q:t.py",)), lambda _: text) == (
        Source("q/t.py", ((2, "test_a"), (5, "test_b"))),
    )


def test_a_source_that_is_not_there_is_still_named() -> None:
    found = sources(Test("//q:t", srcs=("//q:t.sh", "@other//:x.py")), lambda _: None)

    assert [source.place for source in found] == ["q/t.sh"]
