"""Stands for python3 where rules_python installs a wheel, and mends what its installation lacks.

- pip prefers an index's file, whose hash the index states, to an equal or better one on disk, whose
  hash it would have to compute: it downloads torch's CUDA build of 3 GB though a CPU build lies
  there. So wheels on disk are offered with their hashes.
- Wheels come without byte-code, into a place that a sandboxed test cannot write: each test would
  compile torch's 2,400 modules again. So byte-code is compiled once.
- torch's wheel has 12,252 files; a test that takes them one by one makes as many links: 9 to 11 s
  for `import torch`, against 2.6 s for one folder. So a label `directory` is added, and, since a
  folder of sources arrives empty at a remote executor, a label `packed`: the folder as one file.
- A wheel's programs lie outside that folder. So they get a second name inside.
"""

from __future__ import annotations

import compileall
import hashlib
import html
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

_INSTALLER = "python.pip_install.tools.wheel_installer.wheel_installer"

_MARK = "# One folder instead of each file"
_TARGET = """
load("@plumbline//tools/pip:packed_wheel.bzl", "packed_wheel")

{mark}, for executors that share this disk.
py_library(
    name = "directory",
    data = ["site-packages"],
    imports = ["site-packages"],
    deps = [{directories}],
)

# One file, for executors that do not.
packed_wheel(
    name = "pack",
    folder = "site-packages",
    wheel = ":whl",
)

py_library(
    name = "packed",
    data = [
        ":pack",
        "@plumbline//tools/pip:unpack.py",
    ],
    imports = ["site-packages"],
    deps = [{packed}],
)

exports_files(["BUILD.bazel", "site-packages"])
"""
# The wheel's needs as its own metadata names them for this machine, as rules_python 0.22.1 writes
# them. The lock cannot say: a CPU build of torch needs none of the CUDA packages of a CUDA build.
_NEEDS = re.compile(r'name = "pkg",.*?\n    deps = \[(.*?)\],', re.DOTALL)


def add_labels(build: str) -> str:
    """A wheel's BUILD file with labels `directory` and `packed`, whose needs are those of `pkg`.

    Raises ValueError if `build` does not read as rules_python 0.22.1 writes it.
    """
    if _MARK in build:
        return build
    needs = _NEEDS.search(build)
    if needs is None:
        raise ValueError(
            'no py_library "pkg" with deps in the wheel\'s BUILD file: '
            "rules_python is not 0.22.1; adapt tools/python/install_wheel.py"
        )
    labels = re.findall(r'"([^"]+)//:pkg"', needs[1])
    directories, packed = (
        ", ".join(f'"{label}//:{target}"' for label in labels) for target in ("directory", "packed")
    )
    return build + _TARGET.format(mark=_MARK, directories=directories, packed=packed)


def find_links(pip_config: str) -> list[str]:
    """The find-links of pip's settings, from what `pip config list` printed."""
    found = re.findall(r"^(?:\S*\.)?find-links='(.*)'$", pip_config, re.MULTILINE)
    return found[0].replace("\\n", " ").split() if found else []


def links_page(folders: Iterable[Path], requirement: str) -> str:
    """An HTML page that links each wheel of `requirement` in `folders` with its hash."""
    name = re.split(r"[=<>!~ ;\[]", requirement.strip(), maxsplit=1)[0]
    pattern = re.compile(re.sub(r"[-_.]+", "[-_.]+", name) + r"-[0-9].*\.whl", re.IGNORECASE)
    links: list[str] = []
    for wheel in (wheel for folder in folders for wheel in sorted(folder.glob("*.whl"))):
        if pattern.fullmatch(wheel.name):
            with wheel.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            address = html.escape(f"{wheel.resolve().as_uri()}#sha256={digest}")
            links.append(f'<a href="{address}">{html.escape(wheel.name)}</a>')
    return "\n".join(links)


def _offer_wheels_on_disk(requirement: str, scratch: Path) -> dict[str, str]:
    """The environment in which pip sees the hashes of the wheels that its settings name."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    places = find_links(f":env:.find-links='{os.environ.get('PIP_FIND_LINKS', '')}'\n")
    places = places or find_links(listed)
    folders = [Path(place.removeprefix("file://")) for place in places]
    page = links_page([folder for folder in folders if folder.is_dir()], requirement)
    if not page:
        return dict(os.environ)
    (scratch / "links.html").write_text(page)
    return {**os.environ, "PIP_FIND_LINKS": " ".join([str(scratch / "links.html"), *places])}


def finish() -> int:
    """Compiles and labels the wheel unpacked here; returns the exit status."""
    build = Path("BUILD.bazel")
    try:
        build.write_text(add_labels(build.read_text()))
    except ValueError as error:
        print(f"{Path.cwd().name}: {error}", file=sys.stderr)
        return 1
    # Where `pip install --target` puts a wheel's programs, and where ruff and uv look for theirs.
    programs = Path("site-packages/bin")
    if Path("bin").is_dir() and not programs.exists():
        shutil.copytree("bin", programs, copy_function=os.link)
    # unchecked-hash: a sandbox or a remote executor does not keep a source's modification time.
    # A package may hold templates that are not Python; what does not compile is left as it is.
    compileall.compile_dir(
        "site-packages",
        quiet=2,
        workers=os.cpu_count() or 1,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    return 0


def main(arguments: Sequence[str]) -> int:
    """Runs python with `arguments`, and before and after it what an installation needs."""
    command = [sys.executable, *arguments]
    if _INSTALLER not in arguments or "--requirement" not in arguments:
        return subprocess.run(command, check=False).returncode
    requirement = arguments[arguments.index("--requirement") + 1]
    with tempfile.TemporaryDirectory() as scratch:
        environment = _offer_wheels_on_disk(requirement, Path(scratch))
        status = subprocess.run(command, env=environment, check=False).returncode
    return status or finish()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
