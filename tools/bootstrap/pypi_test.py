from pathlib import Path

import pytest

from tools.bootstrap import pypi
from tools.bootstrap.errors import BrokenBuildError
from tools.bootstrap.fake_packages import unpack_fake_packages

RULES_PYTHON = "usr/share/bazel/rules/python"


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    unpack_fake_packages(tmp_path / "unpacked")
    return tmp_path / "unpacked"


def test_each_repository_that_rules_python_names_is_written(unpacked: Path, tmp_path: Path) -> None:
    target = tmp_path / "pypi"
    names = pypi.write_repositories(unpacked, unpacked / RULES_PYTHON, target)
    assert names == ["pypi__click", "pypi__installer", "pypi__pip", "pypi__setuptools"]
    for name in names:
        assert (target / name / "WORKSPACE").read_text() == f'workspace(name = "{name}")\n'
        assert 'name = "lib"' in (target / name / "BUILD.bazel").read_text()


def test_pip_and_installer_are_the_packaged_ones(unpacked: Path, tmp_path: Path) -> None:
    target = tmp_path / "pypi"
    pypi.write_repositories(unpacked, unpacked / RULES_PYTHON, target)
    assert (target / "pypi__pip/pip/__init__.py").is_file()
    assert (target / "pypi__installer/installer/__init__.py").is_file()
    assert pypi.certificates(target).is_file()
    shim = (target / "pypi__setuptools/pkg_resources/__init__.py").read_text()
    assert "import Requirement" in shim


def test_a_rules_python_of_another_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokenBuildError, match="names no pypi__pip"):
        pypi.repository_names(tmp_path)


def test_a_missing_wheel_is_named(unpacked: Path, tmp_path: Path) -> None:
    (wheel,) = (unpacked / "usr/share/python-wheels").iterdir()
    wheel.unlink()
    with pytest.raises(BrokenBuildError, match="python-wheels/pip"):
        pypi.write_repositories(unpacked, unpacked / RULES_PYTHON, tmp_path / "pypi")
