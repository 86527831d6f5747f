from __future__ import annotations

from tools.plumb.starlark import repositories

TEXT = """
workspace(name = "me")
load("@tools//:http.bzl", "http_archive")
load("//:own.bzl", "own")
local_repository(name = "near", path = "near")
own(name = "mine", from_ = "@near//:x")
http_archive(name = "far")
http_archive(name = "loaded")
load("@loaded//:defs.bzl", "more")
more()
"""


def test_a_definition_stands_apart_unless_the_rest_names_it() -> None:
    found = repositories.read(TEXT)

    assert set(found.definitions) == {"near", "mine", "far"}
    assert found.opaque == {"far"}


def test_the_rest_changes_with_what_it_names_only() -> None:
    rest = repositories.read(TEXT).rest

    assert rest == repositories.read(TEXT.replace('name = "far"', 'name = "far", x = 1')).rest
    assert rest == repositories.read(f"# x\n{TEXT}").rest
    assert rest != repositories.read(TEXT.replace('"loaded")', '"loaded", x = 1)')).rest
    assert rest != repositories.read(f"{TEXT}\nmore()\n").rest


def test_what_a_toolchain_or_an_option_names_is_of_the_rest() -> None:
    registered = f'{TEXT}\nregister_toolchains("@mine//:t")\n'

    assert set(repositories.read(registered).definitions) == {"far"}
    assert set(repositories.read(TEXT, ["far"]).definitions) == {"near", "mine"}


def test_a_macro_may_leave_out_what_is_defined_above_it() -> None:
    rest = repositories.read(TEXT).rest
    more = 'local_repository(name = "more", path = "m")\n'

    assert rest == repositories.read(f"{TEXT}{more}").rest
    assert rest != repositories.read(TEXT.replace("more()\n", f"{more}more()\n")).rest


def test_a_second_definition_and_chosen_functions_are_of_the_rest() -> None:
    twice = repositories.read(f'{TEXT}\nhttp_archive(name = "far", x = 1)\n')

    assert twice.rest != repositories.read(TEXT).rest
    assert "mine" not in repositories.read(TEXT, whole=["own"]).definitions


def test_a_file_that_cannot_be_read_is_all_rest() -> None:
    assert repositories.read("x = = 1").definitions == {}
