from __future__ import annotations

from typing import Any

import pytest

from tools.plumb.compare import affected
from tools.plumb.compare.affected import Comparison, compare
from tools.plumb.graph import Target
from tools.plumb.revision import Revision
from tools.plumb.synthetic import py_test, revision, rule, source
from tools.plumb.trees.files import Entry

FILES = {"a/t.py": "test", "a/lib.py": "lib", "a/BUILD": "", "b/u.py": "test"}


def targets(**attributes: Any) -> list[Target]:
    return [
        py_test("//a:t", ["//a:lib", "//a:t.py"], tags=["cpu", "seconds:3"]),
        rule("//a:lib", deps=["//a:lib.py"], **attributes),
        py_test(
            "//b:u",
            ["//b:u.py"],
            tags=["gpu", "gpus:2", "seconds:5", "sm:sm90"],
            exec_properties=[{"key": "test.Pool", "value": "h100"}],
        ),
        source("//a:lib.py"),
        source("//a:t.py"),
        source("//b:u.py"),
    ]


def labels(base: Revision | None, head: Revision, *, manual: bool = False) -> list[str]:
    return [test.label for test in compare(base, head, "no base", manual=manual).tests]


def answer(head_files: dict[str, str], *head_targets: Target) -> Comparison:
    base = revision(FILES, *targets())
    return compare(base, revision(head_files, *(head_targets or targets())), "", manual=False)


def test_the_same_revision_affects_nothing() -> None:
    assert answer(FILES).tests == []


def test_a_source_affects_the_tests_above_it() -> None:
    found = answer({**FILES, "a/lib.py": "edited"}).tests

    assert [(t.label, t.cause, t.because) for t in found] == [("//a:t", "input", "a/lib.py")]


def test_an_attribute_is_named_with_its_target() -> None:
    found = answer(FILES, *targets(imports=["x"])).tests

    assert [(t.label, t.because) for t in found] == [("//a:t", "//a:lib: imports")]


def test_a_wheel_is_named() -> None:
    def with_lock(version: str) -> Revision:
        workspace = 'pip_parse(name = "pip", requirements_lock = "//:lock")'
        texts = {"WORKSPACE": workspace, "lock": f"numpy=={version}\n    # via -r x\n"}
        return revision(texts, py_test("//a:t", ["@pip_numpy//:pkg"]), py_test("//a:u"))

    found = compare(with_lock("1"), with_lock("2"), "", manual=False).tests

    assert [(t.label, t.because) for t in found] == [("//a:t", "wheel numpy of the lock")]


def test_what_an_external_repository_refers_back_to_is_named() -> None:
    def with_core(text: str) -> Revision:
        workspace = 'my_repository(name = "ext", core = "//lib:core")'
        core = rule("//lib:core", deps=["//lib:s"])
        test = py_test("//a:t", ["@ext//:x"])
        return revision({"WORKSPACE": workspace, "lib/s": text}, test, core, source("//lib:s"))

    found = compare(with_core("1"), with_core("2"), "", manual=False).tests

    assert [(t.label, t.because) for t in found] == [
        ("//a:t", "@ext//:x: //lib:core, to which it refers back")
    ]


@pytest.mark.parametrize(
    ("path", "target", "named"),
    [
        ("a/lib.py", "/far/lib.py", "a/lib.py"),
        ("a/lib.py/more/x", "../../../../x", "a/lib.py/more/x"),
    ],
)
def test_what_is_behind_a_link_that_leaves_the_workspace_is_taken_to_differ(
    path: str, target: str, named: str
) -> None:
    texts = {**{k: v for k, v in FILES.items() if k != "a/lib.py"}, path: f"->{target}"}
    made = revision(texts, *targets())
    found = compare(made, made, "", manual=False)

    assert [(t.label, t.because) for t in found.tests] == [
        ("//a:t", f"{named}, behind a link that leaves the workspace: it cannot be compared")
    ]


@pytest.mark.parametrize("texts", [{"b/BUILD": "->/far"}, {"far": "->/far"}, {".bazelrc": "->/x"}])
def test_a_loaded_file_behind_a_link_that_leaves_the_workspace_affects_everything(
    texts: dict[str, str],
) -> None:
    made = revision({**FILES, **texts}, *targets(), source("//far:BUILD"))
    (reason,) = compare(made, made, "", manual=False).everything

    assert reason.endswith("behind a link that leaves the workspace, cannot be compared")


def test_the_placement_is_read_from_the_test() -> None:
    (found,) = answer({**FILES, "b/u.py": "edited"}).tests

    assert (found.placement.pool, found.placement.gpus, found.placement.seconds) == ("h100", 2, 5)


def test_a_new_test_is_affected_and_a_removed_one_is_reported() -> None:
    base = revision(FILES, *targets())
    head = revision(FILES, *targets()[:2], *targets()[3:], py_test("//b:v"))
    found = compare(base, head, "", manual=False)

    assert [(t.label, t.cause) for t in found.tests] == [("//b:v", "new")]
    assert found.removed == ["//b:u"]


def test_a_test_that_turns_manual_is_reported_as_no_longer_run() -> None:
    base = revision(FILES, *targets())
    head = revision(FILES, py_test("//a:t", tags=["manual"]), *targets()[1:])

    assert compare(base, head, "", manual=False).removed == ["//a:t"]
    assert compare(base, head, "", manual=True).removed == []


def test_a_changed_macro_is_named_where_the_build_file_is_as_it_was() -> None:
    base = revision({**FILES, "m/x.bzl": "1", "m/y.bzl": "1", "m/z.bzl": "1"}, *targets())

    def because(**texts: str) -> str:
        names = {f"m/{name}.bzl": text for name, text in texts.items() if name != "build"}
        build = {"a/BUILD": texts.get("build", "")}
        head = revision({**FILES, **names, **build}, *targets(env=["x"]))
        (found,) = compare(base, head, "", manual=False).tests
        return found.because

    assert because(x="2", y="1", z="1") == "//a:lib: env, perhaps by m/x.bzl"
    assert because(x="2", y="2", z="2").endswith("perhaps by m/x.bzl or m/y.bzl and 1 more")
    assert because(x="2", y="1", z="1", build="# 2") == "//a:lib: env"
    assert because(x="1", y="1", z="1") == "//a:lib: env"


def test_a_steering_file_affects_everything_and_says_so() -> None:
    found = answer({**FILES, "tools/bazel": "*x"})

    assert [t.label for t in found.tests] == ["//a:t", "//b:u"]
    assert found.everything == ["tools/bazel changed: it steers Bazel itself"]
    assert {t.cause for t in found.tests} == {"everything"}


def test_an_unowned_file_affects_everything_unless_the_policy_knows_it() -> None:
    unknown = answer({**FILES, "a/stray.bin": "x"})
    policy = '[[rule]]\npattern = "**/*.md"\naffects = "nothing"\nreason = "x"\n'
    rules = {"tools/plumb/policy.toml": policy, "tools/plumb/BUILD": ""}
    owner = source("//tools/plumb:policy.toml")
    base = revision({**FILES, **rules}, *targets(), owner)
    head = revision({**FILES, **rules, "a/notes.md": "x"}, *targets(), owner)
    known = compare(base, head, "", manual=False)

    assert len(unknown.tests) == 2 and "a/stray.bin" in unknown.everything[0]
    assert known.tests == [] and known.unowned[0].path == "a/notes.md"


def test_a_toolchain_of_the_repository_affects_everything() -> None:
    def with_toolchain(content: str) -> Revision:
        return revision(
            {**FILES, "tc/x": content},
            *targets(),
            source("//tc:x"),
            rule("//tc:real", deps=["//tc:x"]),
            rule("//tc:tc", "toolchain", toolchain="@//tc:real"),
        )

    found = compare(with_toolchain("1"), with_toolchain("2"), "", manual=False)

    assert len(found.tests) == 2 and "//tc:real changed" in found.everything[0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("test --test_env=A=b\n", ["//a:t", "//b:u"]),
        ("test:h100 --test_env=A=b\n", ["//b:u"]),
        ("build:h100 --config=more\ntest:more --test_env=A=b\n", ["//b:u"]),
        ("test:other --test_env=A=b\n", []),
        ("test --test_output=all\nbuild --jobs 3\n# comment\n", []),
    ],
)
def test_an_option_affects_the_tests_that_it_reaches(options: str, expected: list[str]) -> None:
    found = answer({**FILES, ".bazelrc": options})

    assert [t.label for t in found.tests] == expected
    assert {t.because for t in found.tests} <= {".bazelrc: --test_env"}


def test_the_config_can_be_named_for_all_pools() -> None:
    base = revision(FILES, *targets())
    head = revision({**FILES, ".bazelrc": "test:ci --test_env=A=b\n"}, *targets())
    found = compare(base, head, "", manual=False, configs=["ci"], only=["h100"])

    assert [t.label for t in found.tests] == ["//b:u"] and found.total == 1


def test_another_default_of_a_flag_affects_everything_where_transitions_may_read_it() -> None:
    flag = rule("//f:f", "string_flag", build_setting_default="a")
    other = rule("//f:f", "string_flag", build_setting_default="b")
    shifts = rule("//f:shifts", **{"$allowlist_function_transition": "x"})
    plain, old, new = (revision(FILES, *targets(), *extra) for extra in ((), (flag,), (other,)))
    shifted = [revision(FILES, *targets(), shifts, one) for one in (flag, other)]

    assert labels(old, new) == labels(plain, new) == []
    assert len(labels(*shifted)) == 2


def test_a_repository_affects_what_depends_on_it() -> None:
    def with_version(version: str, more: str = "") -> Revision:
        archive = 'load("//:x.bzl", "archive")\narchive(name = "z", version = "%s")\n%s'
        texts = {**FILES, "WORKSPACE": archive % (version, more), "x.bzl": ""}
        user = py_test("//c:z", ["@z//:z"])
        return revision(texts, *targets(), user, py_test("//c:w", ["@w//:w"]))

    registered = 'register_toolchains("@z//:t")'

    assert labels(with_version("1"), with_version("2")) == ["//c:z"]
    assert len(labels(with_version("1", registered), with_version("2", registered))) == 4
    assert labels(with_version("1"), with_version("1", "# comment")) == []


def test_an_executable_bit_is_named_since_bazel_does_not_notice_it() -> None:
    base = revision(FILES, *targets())
    # Of the same blob in another mode.
    head = revision({**FILES, "a/lib.py": "lib"}, *targets())
    entry = head.files.entries["a/lib.py"]
    head.files.entries = {**head.files.entries, "a/lib.py": Entry("100755", entry.object_id)}
    (found,) = compare(base, head, "", manual=False).tests

    assert found.because == "a/lib.py: its executable bit, which Bazel itself does not notice"


def test_no_base_affects_everything_with_the_reason() -> None:
    found = compare(None, revision(FILES, *targets()), "it does not load", manual=False)

    assert len(found.tests) == 2 and found.everything == ["it does not load"]


def test_manual_tests_are_left_out_unless_asked_for() -> None:
    head = revision(FILES, py_test("//a:m", tags=["manual"]))

    assert labels(None, head) == []
    assert labels(None, head, manual=True) == ["//a:m"]


def test_a_manual_test_counts_if_a_suite_lists_it_that_is_not_manual() -> None:
    tests = [py_test(f"//a:{name}", tags=["manual"]) for name in "mno"]
    outer = rule("//a:outer", "test_suite", ["//a:inner"])
    inner = rule("//a:inner", "test_suite", ["//a:m"], tags=["manual"])
    manual = rule("//a:manual", "test_suite", ["//a:n"], tags=["manual"])

    assert labels(None, revision(FILES, *tests, outer, inner, manual)) == ["//a:m"]


def test_a_test_tagged_external_always_runs() -> None:
    made = revision(FILES, py_test("//a:e", tags=["external"]))
    (found,) = compare(made, made, "", manual=False).tests

    assert found.cause == affected.ALWAYS


def test_package_settings_count_where_a_build_file_differs() -> None:
    old = revision({**FILES, "a/BUILD": "# x"}, *targets())
    comment = revision({**FILES, "a/BUILD": "# y"}, *targets())
    features = revision(
        {**FILES, "a/BUILD": 'package(default_package_metadata = ["f"])'}, *targets()
    )

    assert labels(old, comment) == []
    assert labels(old, features) == ["//a:t"]


def test_package_settings_count_behind_a_link_too() -> None:
    def behind_link(text: str) -> Revision:
        return revision({**FILES, "a/BUILD": "->../t", "t": text}, *targets(), source("//a:BUILD"))

    assert labels(behind_link(""), behind_link("package(x = 1)")) == ["//a:t"]


def test_near_labels_are_suggested() -> None:
    assert affected.nearest("//a:tt", ["//a:t", "//zzz:q"]) == ["//a:t"]
