"""`plumb affected` in a workspace with MODULE.bazel and no WORKSPACE, without a network.

Needs a Bazel: $PLUMBLINE_BAZEL, or this repository's tools/bazel.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tools.plumb.endtoend.tiny_workspace import Tiny

MODULE = """
module(name = "ws")
bazel_dep(name = "lib")
local_path_override(module_name = "lib", path = "lib")
"""
FILES = {
    "MODULE.bazel": MODULE,
    ".gitignore": "/bazel-*\n",
    ".bazelignore": "lib\n",
    "lib/MODULE.bazel": 'module(name = "lib", version = "1")\n',
    "lib/BUILD": 'exports_files(["data.txt"])\n',
    "lib/data.txt": "1\n",
    "app/BUILD": (
        'sh_test(name = "lib_test", srcs = ["t.sh"], data = ["@lib//:data.txt"])\n'
        'sh_test(name = "own_test", srcs = ["own.sh"])\n'
    ),
    "app/t.sh": "exit 0\n",
    "app/own.sh": "exit 0\n",
}
# Of what Bazel itself asks for: the least that names a module.
_MISSING = re.compile(r"modules/([\w.+-]+)/([^/\s]+)/MODULE\.bazel: not found")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    below = os.environ.get("TEST_TMPDIR")
    folder = Path(mkdtemp(dir=below)) if below else tmp_path_factory.mktemp("bzlmod")
    (folder / "caches").mkdir()
    entry = os.environ.get("PLUMBLINE_BAZEL") or Path(__file__).resolve().parents[2] / "bazel"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    own = f"--output_user_root='{folder}/servers'"
    bzlmod = f"--enable_bzlmod --registry='file://{folder}/registry' --lockfile_mode=off"
    wrapper = folder / "bazel"
    wrapper.write_text(
        f"#!/bin/sh\nXDG_CACHE_HOME='{cache}' exec '{entry}' {own} \"$@\" {bzlmod}\n"
    )
    wrapper.chmod(0o755)
    made = Tiny(folder / "workspace", wrapper, folder / "caches")
    for path, text in FILES.items():
        made.write(path, text)
    made.git("init", "--quiet", ".")
    made.commit()
    try:
        _fill(folder / "registry", made)
        yield made
    finally:
        made.shut_down()


def _fill(registry: Path, made: Tiny) -> None:
    """Puts every module into the registry that Bazel's own modules name."""
    (registry / "nothing").mkdir(parents=True)
    for _ in range(60):
        asked = subprocess.run(
            [made.bazel, "query", "//..."],
            cwd=made.root,
            capture_output=True,
            text=True,
            check=False,
        )
        missing = _MISSING.search(asked.stderr)
        if missing is None:
            assert asked.returncode == 0, asked.stderr
            return
        folder = registry / "modules" / missing[1] / missing[2]
        folder.mkdir(parents=True)
        name, version = missing.groups()
        (folder / "MODULE.bazel").write_text(f'module(name = "{name}", version = "{version}")\n')
        source = f'{{"type": "local_path", "path": "{registry}/nothing"}}'
        (folder / "source.json").write_text(source)
    raise AssertionError("Bazel names ever more modules")


def test_a_module_workspace_answers(workspace: Tiny) -> None:
    everything = {"//app:lib_test", "//app:own_test"}
    for path, old, new, named in (
        ("app/own.sh", "exit", "exit ", {"//app:own_test"}),
        ("MODULE.bazel", "module(", "# comment\nmodule(", set()),
        ("lib/data.txt", "1", "2", everything),
        ("MODULE.bazel", '"ws"', '"other"', everything),
    ):
        workspace.reset()
        workspace.replace(path, old, new)
        assert workspace.selected() == named, path
    assert "MODULE.bazel.lock" not in workspace.git("status", "--short")
