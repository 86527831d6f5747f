"""Lays out the Python tools that rules_python's `pip_parse` runs to fetch and unpack wheels.

rules_python would download fixed wheels of them: another host to reach, and a pip so old that it
does not start on Python 3.12. Debian's pip and installer take their place.
"""

import re
import shutil
import zipfile
from pathlib import Path

from tools.bootstrap.errors import BrokenBuildError

PACKAGES = ("python3-pip-whl", "python3-installer")

_BUILD = """\
load("@rules_python//python:defs.bzl", "py_library")

py_library(
    name = "lib",
    srcs = glob(["**/*.py"], allow_empty = True),
    data = glob(["**/*"], exclude = ["**/*.py", "**/* *"]),
    imports = ["."],
    visibility = ["//visibility:public"],
)
"""

# All that rules_python's wheel installer uses of setuptools' pkg_resources.
_PKG_RESOURCES = "from pip._vendor.packaging.requirements import Requirement as Requirement\n"


def repository_names(rules_python: Path) -> list[str]:
    """The `pypi__*` repositories that this rules_python asks for.

    Raises:
        BrokenBuildError: it names no pip among them, so its layout is another than this knows.
    """
    path = rules_python / "python/pip_install/repositories.bzl"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    names = sorted(set(re.findall(r'"(pypi__\w+)"', text)))
    if "pypi__pip" not in names:
        raise BrokenBuildError(
            f"{path} names no pypi__pip: this rules_python is laid out in a way that "
            "tools/bootstrap/pypi.py does not know."
        )
    return names


def write_repositories(unpacked: Path, rules_python: Path, target: Path) -> list[str]:
    """Writes one Bazel repository for each tool under `target`.

    pip and installer are the packaged ones, setuptools offers what the wheel installer needs of
    it, and the others (used by rules_python's own re-locking only) are empty.

    Args:
        unpacked: where the packages were unpacked.
        rules_python: the packaged rules_python.
        target: a folder, made if missing.

    Returns:
        The names of the repositories, each a folder in `target`.
    """
    names = repository_names(rules_python)
    for name in names:
        (target / name).mkdir(parents=True)
        (target / name / "WORKSPACE").write_text(f'workspace(name = "{name}")\n', encoding="utf-8")
        (target / name / "BUILD.bazel").write_text(_BUILD, encoding="utf-8")
    with zipfile.ZipFile(_one(unpacked, "usr/share/python-wheels/pip-*.whl")) as wheel:
        wheel.extractall(target / "pypi__pip")
    installer = _one(unpacked, "usr/lib/python3/dist-packages/installer")
    shutil.copytree(installer, target / "pypi__installer" / "installer")
    shim = target / "pypi__setuptools" / "pkg_resources"
    shim.mkdir(parents=True)
    (shim / "__init__.py").write_text(_PKG_RESOURCES, encoding="utf-8")
    return names


def certificates(target: Path) -> Path:
    """The file of certificates that pip brings along, in the `target` of `write_repositories`."""
    return target / "pypi__pip/pip/_vendor/certifi/cacert.pem"


def _one(root: Path, pattern: str) -> Path:
    found = sorted(root.glob(pattern))
    if not found:
        raise BrokenBuildError(f"The packages brought no {pattern}.")
    return found[-1]
