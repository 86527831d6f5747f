"""Targets that a macro declares: several of one call, with a source and deps of the macro's own."""

from pathlib import Path

from tools.plumb.deps.check import check
from tools.plumb.deps.findings import Finding
from tools.plumb.deps.packages import Packages
from tools.plumb.deps.small_tree import workspace

RUN = {
    "run/BUILD": 'exports_files(["main.py"])\n'
    'py_library(name = "plugin", srcs = ["plugin.py"])\n'
    'py_library(name = "runner", deps = [":plugin", "@pip//pytest:pkg"])\n',
    "run/main.py": 'import pytest\npytest.main(["-p", "run.plugin"])\n',
    "run/plugin.py": "",
}
BUILD = """
py_library(name = "core", srcs = ["core.py"])
pool_test(name = "a_test", srcs = ["a_test.py"], pools = ["cpu", "gpu"], deps = [{deps}]{more})
"""


def found(root: Path, source: str, deps: str, more: str = "", **files: str) -> list[Finding]:
    tree = {
        **RUN,
        "lib/BUILD": BUILD.format(deps=deps, more=more),
        "lib/core.py": "",
        "lib/a_test.py": source,
        **{name.replace("__", "/").replace("_DOT_", "."): text for name, text in files.items()},
    }
    return check(workspace(root, tree, Packages(frozenset({"pytest"}))))


def test_the_macros_own_deps_serve_its_own_imports_and_the_tests(tmp_path: Path) -> None:
    assert found(tmp_path, "import pytest\nfrom lib import core", '":core"') == []


def test_a_missing_dep_is_added_to_the_call_once_for_all_its_targets(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, "from lib import core", "")

    assert finding.call == "//lib:a_test"
    assert finding.targets == ("//lib:a_test_cpu", "//lib:a_test_gpu")
    assert finding.fixable


def test_what_the_macro_forgets_is_said_once_and_mended_there(tmp_path: Path) -> None:
    tree = {
        **RUN,
        "run/BUILD": RUN["run/BUILD"].replace('":plugin", ', ""),
        "lib/BUILD": "".join(
            f'pool_test(name = "{n}_test", srcs = ["a_test.py"], pools = ["cpu"])\n' for n in "abcd"
        ),
        "lib/a_test.py": "",
    }

    (finding,) = check(workspace(tmp_path, tree, Packages(frozenset({"pytest"}))))

    assert (finding.label, len(finding.targets)) == ("//run:plugin", 4)
    assert "a macro gives this source" in finding.by_hand


def test_a_call_in_a_comprehension_is_used_if_one_of_its_targets_uses_the_dep(
    tmp_path: Path,
) -> None:
    tree = {
        **RUN,
        "lib/BUILD": 'py_library(name = "core", srcs = ["core.py"])\n'
        'py_library(name = "idle", srcs = ["idle.py"])\n'
        '[pool_test(name = n, srcs = [n + ".py"], pools = ["cpu"], deps = [":core", ":idle"])'
        ' for n in ["a_test", "b_test"]]\n',
        "lib/core.py": "",
        "lib/idle.py": "",
        "lib/a_test.py": "import lib.core",
        "lib/b_test.py": "",
    }

    (finding,) = check(workspace(tmp_path, tree, Packages(frozenset({"pytest"}))))

    assert finding.label == "//lib:idle"
    assert "no literal name" in finding.by_hand


def test_a_conftest_above_the_test_has_to_be_there(tmp_path: Path) -> None:
    rules = '\npy_library(name = "fixtures", srcs = ["conftest.py"])\n'

    def checked(deps: str) -> list[Finding]:
        tree = {
            **RUN,
            "lib/BUILD": BUILD.format(deps=deps, more="") + rules,
            "lib/core.py": "",
            "lib/a_test.py": "",
            "lib/conftest.py": "",
        }
        return check(workspace(tmp_path, tree, Packages(frozenset({"pytest"}))))

    (finding,) = checked("")
    assert (finding.label, finding.where) == ("//lib:fixtures", "lib/conftest.py")
    assert checked('":fixtures"') == []


def test_a_file_that_a_test_reads_is_data(tmp_path: Path) -> None:
    source = 'from pathlib import Path\nx = Path(__file__).parent / "x.txt"'

    (finding,) = found(tmp_path, source, "", lib__x_DOT_txt="")

    assert (finding.attribute, finding.label) == ("data", "//lib:x.txt")
    assert finding.fixable
    assert found(tmp_path, source, "", ', data = ["x.txt"]', lib__x_DOT_txt="") == []
    assert found(tmp_path, source, "", ', tags = ["external"]', lib__x_DOT_txt="") == []


def test_files_that_a_test_globs_are_data(tmp_path: Path) -> None:
    source = 'from pathlib import Path\nx = sorted(Path(__file__).parent.glob("*.txt"))'

    (finding,) = found(tmp_path, source, "", lib__x_DOT_txt="", lib__y_DOT_txt="")

    assert "2 of the 2 files are no input, such as lib/x.txt" in finding.by_hand
    more = ', data = ["x.txt"]'
    assert found(tmp_path, source, "", more, lib__x_DOT_txt="", lib__y_DOT_md="") == []


def test_a_file_of_another_package_has_to_be_exported(tmp_path: Path) -> None:
    source = 'from pathlib import Path\nx = Path(__file__).parents[1] / "far/x.txt"'
    more = {"far__x_DOT_txt": ""}

    (finding,) = found(tmp_path, source, "", "", far__BUILD="", **more)
    assert 'exports_files(["x.txt"])' in finding.by_hand

    (finding,) = found(tmp_path, source, "", "", far__BUILD='exports_files(["x.txt"])', **more)
    assert (finding.label, finding.by_hand) == ("//far:x.txt", "")


def test_data_that_nothing_names_is_unused(tmp_path: Path) -> None:
    more = ', data = ["x.txt"]'

    (finding,) = found(tmp_path, "", "", more, lib__x_DOT_txt="")
    assert (finding.attribute, finding.label) == ("data", "//lib:x.txt")

    assert found(tmp_path, "NAME = 'x.txt'", "", more, lib__x_DOT_txt="") == []
    by_place = more + ', env = {"X": "$(rootpath x.txt)"}'
    assert found(tmp_path, "", "", by_place, lib__x_DOT_txt="") == []
