from pathlib import Path
from typing import Any

import pytest

from tools.plumb.deps.check import check
from tools.plumb.deps.findings import Finding, Kind
from tools.plumb.deps.policy import Absent, Dynamic
from tools.plumb.deps.small_tree import workspace

LIBRARY = """
py_library(name = "core", srcs = ["core.py"])
py_library(name = "user", srcs = ["user.py"], deps = [{deps}])
"""


def library(root: Path, source: str, deps: str = "", **more: Any) -> list[Finding]:
    """What is wrong with //lib:user, of the given source and deps, beside //lib:core."""
    files = {
        "lib/BUILD": LIBRARY.format(deps=deps) + more.pop("rules", ""),
        "lib/core.py": "",
        "lib/user.py": source,
        **more.pop("files", {}),
    }
    return check(workspace(root, files, **more))


def brief(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(str(finding.kind), finding.label) for finding in findings]


@pytest.mark.parametrize(
    "source",
    [
        "import lib.core",
        "from lib import core",
        "from lib.core import name",
        "from .core import name",
        "def f():\n    from lib import core",
        "import importlib\nimportlib.import_module('lib.core')",
        "run(['python', '-m', 'lib.core'])",
    ],
)
def test_an_import_without_a_dep_is_missing_and_with_one_is_not(
    tmp_path: Path, source: str
) -> None:
    (finding,) = library(tmp_path, source)

    assert (finding.kind, finding.call, finding.label) == (
        Kind.MISSING,
        "//lib:user",
        "//lib:core",
    )
    assert finding.where.startswith("lib/user.py:")
    assert finding.fixable
    assert finding.command() == "add deps :core"
    assert library(tmp_path, source, '":core"') == []


def test_a_dep_that_nothing_imports_is_unused(tmp_path: Path) -> None:
    (finding,) = library(tmp_path, "import os", '":core"')

    assert (finding.kind, finding.label, finding.where) == (
        Kind.UNUSED,
        "//lib:core",
        "lib/BUILD:3",
    )
    assert finding.command() == "remove deps :core"


def test_a_dep_for_types_alone_is_of_use_but_need_not_be(tmp_path: Path) -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lib import core\n"

    assert library(tmp_path, source) == []
    assert library(tmp_path, source, '":core"') == []


def test_a_dep_of_a_dep_is_not_ones_own(tmp_path: Path) -> None:
    rules = 'py_library(name = "far", srcs = ["far.py"], deps = [":user"])\n'
    files = {"lib/far.py": "from lib import core, user"}

    found = library(tmp_path, "import lib.core", '":core"', rules=rules, files=files)

    assert brief(found) == [("indirect", "//lib:core")]


def test_a_target_without_sources_hands_on_what_it_depends_on(tmp_path: Path) -> None:
    rules = (
        'py_library(name = "all", deps = [":core"])\nalias(name = "same", actual = ":all")\n'
        'py_library(name = "far", srcs = ["far.py"], deps = [":same"])\n'
    )

    assert library(tmp_path, "", rules=rules, files={"lib/far.py": "import lib.core"}) == []


def test_third_party_packages_are_known_by_their_modules(tmp_path: Path) -> None:
    assert brief(library(tmp_path, "import yaml.nodes", '"@pip//torch:pkg"')) == [
        ("missing", "@pip//pyyaml:pkg"),
        ("unused", "@pip//torch:pkg"),
    ]
    assert library(tmp_path, "import torch", '"@pip//torch:pkg"') == []


def test_a_module_that_nothing_holds_is_unknown(tmp_path: Path) -> None:
    (finding,) = library(tmp_path, "import requests")

    assert (finding.kind, finding.label, finding.fixable) == (Kind.UNKNOWN, "", False)
    assert "requests" in finding.by_hand


def test_a_module_that_no_target_lists_is_named_with_its_file(tmp_path: Path) -> None:
    (finding,) = library(tmp_path, "import lib.lone", files={"lib/lone.py": ""})

    assert finding.kind is Kind.NO_TARGET
    assert "no target lists lib/lone.py" in finding.by_hand


def test_two_providers_are_a_choice_for_the_reader(tmp_path: Path) -> None:
    rules = 'py_library(name = "again", srcs = ["core.py"])\n'

    (finding,) = library(tmp_path, "import lib.core", rules=rules)

    assert "choose one of //lib:again, //lib:core" in finding.by_hand
    assert library(tmp_path, "import lib.core", '":again"', rules=rules) == []


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ('py_library(name = "core", srcs = ["core.py"], deps = [":user"])', "a circle"),
        ('py_library(name = "core", srcs = ["core.py"], testonly = True)', "is testonly"),
        ('py_test(name = "core", srcs = ["core.py"])', ""),
    ],
)
def test_a_dep_that_bazel_would_refuse_is_left_to_the_reader(
    tmp_path: Path, rules: str, said: str
) -> None:
    files = {
        "lib/BUILD": f'{rules}\npy_library(name = "user", srcs = ["user.py"])\n',
        "lib/core.py": "import lib.user" if "circle" in said else "",
        "lib/user.py": "import lib.core",
    }

    found = [f for f in check(workspace(tmp_path, files)) if f.call == "//lib:user"]

    assert said in found[0].by_hand


def test_a_dep_that_is_not_visible_is_left_to_the_reader(tmp_path: Path) -> None:
    rule = 'py_library(name = "b", srcs = ["b.py"], visibility = ["//visibility:private"])'
    files = {"b/BUILD": rule, "b/b.py": ""}

    (finding,) = library(tmp_path, "import b.b", files=files)

    assert "not visible" in finding.by_hand


def test_a_dep_in_a_branch_of_a_select_is_declared(tmp_path: Path) -> None:
    rules = (
        'py_library(name = "fast", srcs = ["fast.py"], deps = select('
        '{"//:gpu": [":core"], "//conditions:default": []}))\n'
    )

    assert library(tmp_path, "", rules=rules, files={"lib/fast.py": "import lib.core"}) == []


def test_what_a_plain_build_leaves_out_is_not_added_to_it(tmp_path: Path) -> None:
    rules = (
        'py_library(name = "fast", srcs = ["fast.py"], deps = [":x"] + select('
        '{"//:gpu": [":core"], "//conditions:default": []}))\n'
        'py_library(name = "x", srcs = ["x.py"])\n'
    )
    files = {"lib/fast.py": "import lib.core, lib.x", "lib/x.py": ""}

    (finding,) = library(tmp_path, "import lib.core", rules=rules, files=files)

    assert "add it to a select() under //:gpu" in finding.by_hand


def test_a_dynamic_import_needs_a_word_in_the_policy(tmp_path: Path) -> None:
    source = "import importlib\ndef f(x):\n    return importlib.import_module(x)"
    said = Dynamic("lib/user.py", ["lib.core"], "only that one")

    assert brief(library(tmp_path, source)) == [("dynamic", "")]
    assert brief(library(tmp_path, source, dynamic=(said,))) == [("missing", "//lib:core")]
    assert library(tmp_path, source, '":core"', dynamic=(said,)) == []


def test_an_exemption_that_nothing_needs_is_a_finding(tmp_path: Path) -> None:
    absent = Absent("//lib:user", "lib.core", "only the binary imports it")
    dynamic = Dynamic("lib/user.py", [], "none")

    assert library(tmp_path, "import lib.core", absent=(absent,)) == []
    (stale,) = library(tmp_path, "", absent=(absent,))
    assert stale.what == "[[absent]] //lib:user lib.core"
    (stale,) = library(tmp_path, "", dynamic=(dynamic,))
    assert stale.what == "[[dynamic]] lib/user.py"


@pytest.mark.parametrize(
    ("source", "comment", "said"),
    [
        ("", "# plumb: keep, it registers itself", None),
        ("", "# plumb: keep", "REASON"),
        ("import lib.core", "# plumb: keep, it registers itself", "delete its"),
    ],
)
def test_a_dep_is_kept_for_a_reason(
    tmp_path: Path, source: str, comment: str, said: str | None
) -> None:
    found = library(tmp_path, source, f'":core",  {comment}\n')

    assert [said in finding.by_hand for finding in found if said] == ([True] if said else [])


def test_a_generated_source_leaves_its_targets_deps_unjudged(tmp_path: Path) -> None:
    rules = (
        'genrule(name = "gen", outs = ["made.py"])\n'
        'py_library(name = "made", srcs = [":gen"], deps = [":core"])\n'
        'py_library(name = "far", srcs = ["far.py"], deps = [])\n'
    )

    found = library(tmp_path, "", rules=rules, files={"lib/far.py": "import lib.made"})

    assert brief(found) == [("missing", "//lib:made")]


def test_a_file_that_python_cannot_parse_is_named(tmp_path: Path) -> None:
    (finding,) = library(tmp_path, "def", '":core"')

    assert (finding.kind, finding.where) == (Kind.UNREADABLE, "lib/user.py:1")


def test_imports_roots_and_a_scripts_own_folder_are_searched(tmp_path: Path) -> None:
    files = {
        "src/BUILD": 'py_library(name = "a", srcs = ["python/a.py"], imports = ["python"])\n'
        'py_binary(name = "b", srcs = ["b.py"], deps = [":c"])\n'
        'py_library(name = "c", srcs = ["c.py"])\n',
        "src/python/a.py": "",
        "src/b.py": "import c",
        "src/c.py": "",
    }

    assert library(tmp_path, "import a", '"//src:a"', files=files) == []
    assert brief(library(tmp_path, "import a", files=files)) == [("missing", "//src:a")]


def test_what_a_foreign_rule_or_repository_provides_is_not_called_unknown(tmp_path: Path) -> None:
    rules = 'opaque(name = "made", outs = [])\n'

    assert brief(library(tmp_path, "import far")) == [("unknown", "")]
    assert library(tmp_path, "import far", '":made"', rules=rules) == []
    assert library(tmp_path, "import far", '"@far//:far"') == []


def test_only_what_is_asked_for_is_checked(tmp_path: Path) -> None:
    files = {"lib/BUILD": LIBRARY.format(deps=""), "lib/core.py": "", "lib/user.py": "import x"}
    tree = workspace(tmp_path, files)

    assert check(tree, ["//lib:core", "//other/..."]) == []
    for pattern in ("//lib:user", "//lib:all", "//lib/...", "//..."):
        assert len(check(tree, [pattern])) == 1
