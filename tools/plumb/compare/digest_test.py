from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tools.plumb.compare.digest import Digests
from tools.plumb.compare.why import Tracer
from tools.plumb.graph import Graph, Target
from tools.plumb.steering.inputs import SteeringInputs
from tools.plumb.synthetic import files, generated, graph, py_test, rule, source

LOCK = "numpy==1\n    # via scipy\nscipy==1\n    # via -r x\ntorch==1\n    # via -r x\n"


@dataclass(frozen=True)
class Whole:
    """A target with all below it on one side; two are equal if nothing differs."""

    side: Digests
    label: str

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Whole)
        return not Tracer(self.side, other.side).changed(self.label)


def digests(texts: dict[str, str], made: Graph, **steering: Any) -> Digests:
    return Digests(made, files(texts), SteeringInputs(**steering))


def whole(target: Target, *others: Target, texts: dict[str, str] | None = None) -> Whole:
    return Whole(digests(texts or {}, graph(target, *others)), target.label)


def test_a_source_counts_through_every_level() -> None:
    made = graph(
        py_test("//a:t", ["//a:alias"]),
        rule("//a:alias", "alias", ["//a:out"]),
        generated("//a:out", "//a:gen"),
        rule("//a:gen", "genrule", ["//a:s"]),
        source("//a:s"),
    )

    assert Whole(digests({"a/s": "1"}, made), "//a:t") != Whole(
        digests({"a/s": "2"}, made), "//a:t"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"size": "large"},
        {"tags": ["cpu", "exclusive"]},
        {"$rule_implementation_hash": "b"},
        {"env": [{"key": "A", "value": "b"}]},
    ],
)
def test_attributes_count(changed: dict[str, Any]) -> None:
    attributes = {"size": "small", "tags": ["cpu"], "$rule_implementation_hash": "a"}

    assert whole(py_test("//a:t", **attributes)) != whole(py_test("//a:t", **attributes | changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"visibility": ["//x"]},
        {"generator_location": "a/BUILD:9:1"},
        {"data": ["//a:z", "//a:y"]},
        {"features": ["x"]},
    ],
)
def test_what_makes_no_test_run_again_does_not_count(changed: dict[str, Any]) -> None:
    attributes = {"size": "small", "tags": ["cpu", "seconds:3"], "data": ["//a:y", "//a:z"]}

    assert whole(py_test("//a:t", **attributes)) == whole(py_test("//a:t", **attributes | changed))


def test_a_tag_counts_where_an_action_may_see_it() -> None:
    plain, tagged = rule("//a:x", tags=[]), rule("//a:x", tags=["seconds:9"])
    starlark = {"$rule_implementation_hash": "h"}

    assert whole(py_test("//a:t", tags=["seconds:1"])) != whole(py_test("//a:t"))
    assert whole(plain) == whole(tagged)
    assert whole(rule("//a:x", "genrule", tags=["no-sandbox"])) != whole(rule("//a:x", "genrule"))
    assert whole(rule("//a:x", "own", **starlark)) != whole(
        rule("//a:x", "own", tags=["seconds:9"], **starlark)
    )


def test_of_a_rule_of_this_repository_only_what_it_reaches_counts() -> None:
    text = "def _impl(ctx):\n    return []\nown = rule(implementation = _impl)\n"
    defined = {"$rule_implementation_hash": "h", "$definition": "r.bzl:3:11: <toplevel>"}

    def with_text(text: str, hashed: str, *tags: str) -> Whole:
        target = rule(
            "//a:x", "own", **{**defined, "$rule_implementation_hash": hashed}, tags=[*tags]
        )
        return whole(target, texts={"r.bzl": text})

    plain = with_text(text, "h")
    assert plain == with_text(f"{text}# x\nother = 1\n", "i") == with_text(text, "h", "seconds:1")
    assert plain != with_text(text.replace("[]", "[1]"), "h")
    reading = text.replace("[]", "ctx.attr.tags")
    assert with_text(reading, "h") != with_text(reading, "h", "seconds:1")


def test_the_rule_class_and_the_label_count() -> None:
    assert whole(rule("//a:t", "sh_test")) != whole(rule("//a:t", "py_test"))
    assert whole(rule("//a:t")) != whole(rule("//a:u"))


def test_a_label_without_target_is_the_file_or_folder_of_that_path() -> None:
    target = py_test("//a:t", ["//a:folder"])

    assert whole(target, texts={"a/folder/x": "1"}) != whole(target, texts={"a/folder/x": "2"})


def test_a_wheel_counts_with_its_needs_only() -> None:
    target = py_test("//a:t", ["@pip_scipy//:pkg", "@pip//scipy:pkg"])

    def with_lock(text: str) -> Whole:
        return Whole(digests({"lock": text}, graph(target), locks={"pip": "lock"}), "//a:t")

    assert with_lock(LOCK) != with_lock(LOCK.replace("numpy==1", "numpy==2"))
    assert with_lock(LOCK) == with_lock(LOCK.replace("torch==1", "torch==2"))


def test_a_flag_counts_with_what_the_rc_file_sets_it_to() -> None:
    flag = rule("//pip:torch", "label_flag", ["//pip:none"], build_setting_default="//pip:none")
    made = graph(py_test("//a:t", ["//pip:torch"]), flag)
    locks = SteeringInputs(locks={"pip": "lock"})

    def with_lock(text: str, *values: str) -> Digests:
        options = {"//pip:torch": values} if values else {}
        return Digests(made, files({"lock": text}), locks, options=options)

    other, wheel = LOCK.replace("torch==1", "torch==2"), "@pip_torch//:directory"
    assert Whole(with_lock(LOCK, wheel), "//a:t") != Whole(with_lock(other, wheel), "//a:t")
    assert Whole(with_lock(LOCK), "//a:t") == Whole(with_lock(other), "//a:t")
    assert with_lock(LOCK, wheel).deps("//pip:torch") == (wheel,)
    assert with_lock(LOCK).deps("//pip:torch") == ("//pip:none",)


def test_a_branch_that_is_not_taken_does_not_count() -> None:
    branches = {
        "type": "LABEL_LIST",
        "elements": [
            {
                "entries": [
                    {"label": "@//c:gpu", "stringListValue": ["@//a:gpu"]},
                    {"label": "@//conditions:default", "stringListValue": ["@//a:cpu"]},
                ]
            }
        ],
    }
    deps = ("//a:cpu", "//a:gpu", "//c:gpu")
    setting = rule("//c:gpu", "config_setting", flag_values=[{"key": "@//c:acc", "value": "gpu"}])
    flag = rule("//c:acc", "string_flag", build_setting_default="none")
    made = graph(Target("//a:l", "rule", "py_library", {"deps": branches}, deps), setting, flag)
    cpu = Digests(made, files({}), SteeringInputs())
    gpu = Digests(made, files({}), SteeringInputs(), options={"//c:acc": ("gpu",)})
    unknown = Digests(graph(made.targets["//a:l"]), files({}), SteeringInputs())

    assert (cpu.deps("//a:l"), gpu.deps("//a:l")) == (("//a:cpu",), ("//a:gpu",))
    assert (unknown.deps("//a:l"), unknown.branches.undecided) == (deps, {"//c:gpu"})


def test_an_external_repository_counts_what_its_definition_refers_back_to() -> None:
    made = graph(
        py_test("//a:t", ["@ext//:back"]),
        rule("//lib:core", deps=["//lib:s", "@ext//:front"]),
        source("//lib:s"),
    )

    def with_source(text: str, repository: str = "ext") -> Whole:
        back = {repository: {"//lib:core"}}
        return Whole(digests({"lib/s": text}, made, back=back), "//a:t")

    assert with_source("1") != with_source("2")
    assert with_source("1", "") != with_source("2", "")
    assert with_source("1", "other") == with_source("2", "other")


def test_a_file_of_the_hub_itself_is_the_whole_lock() -> None:
    target = py_test("//a:t", ["@pip//:requirements.bzl"])
    old, new = (
        Whole(digests({"lock": text}, graph(target), locks={"pip": "lock"}), "//a:t")
        for text in (LOCK, LOCK.replace("torch==1", "torch==2"))
    )

    assert old != new


def test_package_settings_count_for_the_package() -> None:
    made = graph(rule("//a:x"), rule("//b:x"))
    plain = Digests(made, files({}), SteeringInputs())
    with_features = Digests(made, files({}), SteeringInputs(), {"a": "features"})

    assert Whole(plain, "//a:x") != Whole(with_features, "//a:x")
    assert Whole(plain, "//b:x") == Whole(with_features, "//b:x")


def test_a_genquery_reads_the_whole_graph() -> None:
    query = rule("//a:q", "genquery")

    assert whole(query, rule("//b:x", visibility=["//c"])) != whole(query, rule("//b:x"))


def test_a_cycle_ends_and_still_counts_content() -> None:
    made = graph(
        rule("//a:x", deps=["//a:y"]), rule("//a:y", deps=["//a:x", "//a:s"]), source("//a:s")
    )

    assert Whole(digests({"a/s": "1"}, made), "//a:x") != Whole(
        digests({"a/s": "2"}, made), "//a:x"
    )


def test_a_deep_chain_needs_no_deep_stack() -> None:
    chain = [rule(f"//a:n{i}", deps=[f"//a:n{i + 1}"]) for i in range(5000)]
    old, new = (digests({"a/n5000": text}, graph(*chain)) for text in "12")

    assert Tracer(old, new).start("//a:n0") == "//a:n5000"
    assert len(Tracer(old, new).chain("//a:n0").labels) == 5001
