import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tools.python import install_wheel

BUILD = """\
filegroup(
    name = "whl",
    data = ["@pip_numpy//:whl"],
)

py_library(
    name = "pkg",
    srcs = glob(["site-packages/**/*.py"]),
    imports = ["site-packages"],
    deps = [{deps}],
    tags = ["pypi_name=torch"],
)
"""


def test_each_label_needs_the_same_label_of_what_the_wheel_needs() -> None:
    build = install_wheel.add_labels(BUILD.format(deps='"@pip_numpy//:pkg","@pip_sympy//:pkg"'))

    for label in ("directory", "packed"):
        target = build[build.index(f'name = "{label}"') :]
        needs = f'deps = ["@pip_numpy//:{label}", "@pip_sympy//:{label}"]'
        assert needs in target.partition("\n)")[0]


def test_a_wheel_without_needs_has_none() -> None:
    build = install_wheel.add_labels(BUILD.format(deps=""))

    assert build.count("deps = [],") == 3


def test_a_second_run_changes_nothing() -> None:
    once = install_wheel.add_labels(BUILD.format(deps=""))

    assert install_wheel.add_labels(once) == once


def test_a_build_file_of_another_rules_python_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rules_python is not 0\.22\.1"):
        install_wheel.add_labels('py_library(name = "wheel")')


def test_byte_code_outlives_a_change_of_modification_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site-packages").mkdir()
    source = tmp_path / "site-packages" / "module.py"
    source.write_text("VALUE = 1\n")
    (tmp_path / "site-packages" / "template.py").write_text("this is {{ no }} Python\n")
    (tmp_path / "BUILD.bazel").write_text(BUILD.format(deps=""))
    monkeypatch.chdir(tmp_path)

    assert install_wheel.finish() == 0

    # Byte-code that were checked against the source would give 2.
    source.write_text("VALUE = 2\n")
    code = "import sys; sys.path.insert(0, 'site-packages'); import module; print(module.VALUE)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_a_wheels_programs_lie_where_a_target_installation_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ruff").write_text("program")
    (tmp_path / "BUILD.bazel").write_text(BUILD.format(deps=""))
    monkeypatch.chdir(tmp_path)

    assert install_wheel.finish() == 0
    assert (tmp_path / "site-packages" / "bin" / "ruff").read_text() == "program"


def test_wheels_on_disk_are_offered_with_their_hashes(tmp_path: Path) -> None:
    for name in ("ml_dtypes-0.6.0", "torch-2.13.0+cpu-cp311", "torch_geometric-1"):
        (tmp_path / f"{name}-x.whl").write_bytes(f"{name}-x.whl".encode())
    digest = hashlib.sha256(b"torch-2.13.0+cpu-cp311-x.whl").hexdigest()

    page = install_wheel.links_page([tmp_path], "torch==2.13.0 --hash=sha256:00")

    assert page == (
        f'<a href="file://{tmp_path}/torch-2.13.0%2Bcpu-cp311-x.whl#sha256={digest}">'
        "torch-2.13.0+cpu-cp311-x.whl</a>"
    )


def test_a_name_is_compared_as_an_index_compares_it(tmp_path: Path) -> None:
    (tmp_path / "ml_dtypes-0.6.0-cp311-x.whl").touch()

    assert "ml_dtypes" in install_wheel.links_page([tmp_path], "ml-dtypes==0.6.0")
    assert install_wheel.links_page([tmp_path], "numpy==2.4.6") == ""


def test_pips_own_setting_of_wheels_on_disk_is_read() -> None:
    listed = "global.cert='/etc/cert'\nglobal.find-links='/a /b'\nglobal.no-index='0'\n"

    assert install_wheel.find_links(listed) == ["/a", "/b"]
    assert install_wheel.find_links("global.cert='/etc/cert'\n") == []


def test_other_programs_run_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert install_wheel.main(["-c", "raise SystemExit(3)"]) == 3
    assert list(tmp_path.iterdir()) == []
