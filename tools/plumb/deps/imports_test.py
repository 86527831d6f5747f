import pytest

from tools.plumb.deps.imports import Import, Need, named_in_arguments, read

PATH = "app/core/main.py"


def found(source: str) -> dict[tuple[str, ...], Need]:
    return {one.modules: one.need for one in read(source, PATH).found}


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import a.b", ("a.b",)),
        ("import a.b as c", ("a.b",)),
        ("from a.b import c", ("a.b.c", "a.b")),
        ("from a import *", ("a",)),
        ("from . import c", ("app.core.c", "app.core")),
        ("from .c import d", ("app.core.c.d", "app.core.c")),
        ("from .. import c", ("app.c", "app")),
        ("def f():\n    import lazy", ("lazy",)),
        ("try:\n    import fast\nexcept ImportError:\n    fast = None", ("fast",)),
        ("import importlib\nm = importlib.import_module('a.b')", ("a.b",)),
        ("from importlib import import_module\nimport_module('.c', __package__)", ("app.core.c",)),
        ("m = __import__('a')", ("a",)),
        ("import pytest\nm = pytest.importorskip('a.b')", ("a.b",)),
        ("pytest_plugins = ['a.plugin', 'b']", ("a.plugin",)),
        ("pytest_plugins = 'a.plugin'", ("a.plugin",)),
    ],
)
def test_an_import_is_read(source: str, modules: tuple[str, ...]) -> None:
    assert found(source)[modules] is Need.RUN


def test_what_only_a_type_checker_sees_need_not_be_there_at_run_time() -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from a import b\nelse:\n    import c\n"
        "if not TYPE_CHECKING:\n    import d\n"
    )

    assert found(source) == {
        ("typing.TYPE_CHECKING", "typing"): Need.RUN,
        ("a.b", "a"): Need.MENTION,
        ("c",): Need.RUN,
        ("d",): Need.RUN,
    }


@pytest.mark.parametrize("option", ["-m", "-p"])
def test_a_module_that_a_command_names_is_needed_if_there_is_one(option: str) -> None:
    source = f"import sys\nrun([sys.executable, '{option}', 'a.b', 'x'])\ncall('{option}', 'c')\n"

    assert found(source)["a.b.__main__", "a.b"] is Need.NAMED
    assert found(source)["c.__main__", "c"] is Need.NAMED
    assert list(named_in_arguments(["-v", option, "a.b", "-k", "c"])) == ["a.b"]


def test_a_dotted_string_is_a_mention_down_to_its_first_part() -> None:
    assert found("KERNEL = 'a.b.c:run'") == {("a.b.c", "a.b", "a"): Need.MENTION}
    assert found("TEXT = 'A sentence. And one more.'") == {}


def test_an_import_says_its_line_and_how_it_is_written() -> None:
    assert read("\nfrom a import b\n", PATH).found == (
        Import(2, "from a import b", ("a.b", "a"), Need.RUN),
    )


@pytest.mark.parametrize(
    "source",
    ["import importlib\nimportlib.import_module(f'a.{x}')", "__import__(x)", "pytest_plugins = x"],
)
def test_an_import_of_what_a_variable_holds_is_no_import_that_one_can_read(source: str) -> None:
    (dynamic,) = read(source, PATH).dynamic

    assert "x" in dynamic.text


def test_a_file_that_is_no_python_is_refused() -> None:
    with pytest.raises(SyntaxError):
        read("def", PATH)
