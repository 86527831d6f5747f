"""A hundred odd repositories and revisions: each gets an answer or one clear sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tools.plumb import cli
from tools.plumb.endtoend.fake_workspace import Workspace
from tools.plumb.errors import ExitCode

Shape = Callable[[Workspace], object]

NAMES = ("a b.txt", "é ü.txt", "-dash", "new\nline", "tab\t", '"quoted"', "🎛.md", "a#b", "..x")
GARBAGE = ("", "\x00\x01", "load(", "[[rule]]\npattern = 3\n", "é" * 3, "import %workspace%/x\n\\")
STEERING = (
    "WORKSPACE",
    "MODULE.bazel",
    ".bazelrc",
    ".bazelversion",
    "BUILD",
    "x.bzl",
    "tools/plumb/policy.toml",
    "tools/plumb/pools.toml",
    ".gitattributes",
    ".gitignore",
)
LINKS = ("/nowhere", "loop", "one.test", "..", ".", "a/../../x", "é")
LINKED = ("loop", "l", "WORKSPACE", ".bazelrc", "é l")
REVISIONS = (
    "HEAD",
    "HEAD~1",
    "HEAD^{tree}",
    "@{-1}",
    "",
    "--all",
    ":",
    "HEAD:x",
    "-",
    "é",
    "\t",
    "0",
)


def write(name: str, text: str) -> Shape:
    return lambda made: made.write(name, text)


def link(name: str, target: str) -> Shape:
    def put(made: Workspace) -> None:
        path = made.root / name
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return put


def remove(name: str) -> Shape:
    return lambda made: (made.root / name).unlink(missing_ok=True)


def make_executable(name: str) -> Shape:
    return lambda made: (made.root / name).chmod(0o755) if (made.root / name).exists() else None


def commit(made: Workspace) -> None:
    # Git itself refuses some of these: then the files stay as they are, uncommitted.
    with suppress(subprocess.CalledProcessError):
        made.git("add", "--all")
    with suppress(subprocess.CalledProcessError):
        made.git("commit", "--quiet", "--allow-empty", "-m", "x")


def orphan(made: Workspace) -> None:
    with suppress(subprocess.CalledProcessError):
        made.git("checkout", "--quiet", "--orphan", f"orphan{len(list(made.root.iterdir()))}")


def detach(made: Workspace) -> None:
    subprocess.run(["git", "checkout", "--quiet", "--detach"], cwd=made.root, check=False)


def nested(made: Workspace) -> None:
    inner = made.root / "inner"
    if not inner.exists():
        inner.mkdir()
        subprocess.run(["git", "init", "--quiet"], cwd=inner, check=True)
        (inner / "f").write_text("x")


def no_git(made: Workspace) -> None:
    if (made.root / ".git").exists():
        (made.root / ".git").rename(made.root.parent / f"git{os.urandom(4).hex()}")


shapes = st.one_of(
    st.builds(write, st.sampled_from([*NAMES, *STEERING]), st.sampled_from(GARBAGE)),
    st.builds(link, st.sampled_from(LINKED), st.sampled_from(LINKS)),
    st.builds(remove, st.sampled_from(["WORKSPACE", "one.test", "tools/bazel", "notes.md"])),
    st.builds(make_executable, st.sampled_from(["one.test", "notes.md"])),
    st.sampled_from([commit, commit, orphan, detach, nested, no_git]),
    st.builds(write, st.just("broken"), st.just("")),
)  # fmt: skip
# No command line can hold a NUL.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
revisions = st.one_of(st.just("HEAD"), st.just("HEAD~1"), st.sampled_from(REVISIONS), TEXTS)
options = st.lists(
    st.sampled_from(
        [
            ["--strict"],
            ["--merge-base"],
            ["--manual"],
            ["--format", "json"],
            ["--format", "github"],
            ["--format", "bazel"],
            ["--why", "one"],
            ["--why", "//é:…"],
            ["--pool", "h100"],
            ["--pool", "none"],
            ["--config", "none"],
        ]
    ),
    max_size=3,
)


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[*HealthCheck],
)
@given(
    made=st.lists(shapes, max_size=6),
    base=revisions,
    head=st.none() | revisions,
    more=options,
    committed=st.booleans(),
)
def test_every_outcome_is_an_answer_or_a_sentence(
    capsys: pytest.CaptureFixture[str],
    made: list[Shape],
    base: str,
    head: str | None,
    more: list[list[str]],
    committed: bool,
) -> None:
    with TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        workspace = Workspace(Path(folder))
        for shape in made:
            shape(workspace)
        if committed:
            commit(workspace)
        words = ["affected", f"--base={base}", *(w for words in more for w in words)]
        words += [] if head is None else [f"--head={head}"]

        capsys.readouterr()
        code = run(workspace, words)
        out, err = capsys.readouterr()
    event(f"exit code {code}")

    assert code in {*ExitCode}, (words, err)
    if code == 0:
        check_answer(out, more)
    else:
        assert "plumb:" in err or "Usage:" in err, (words, err)
        assert "Traceback" not in err


def check_answer(out: str, more: list[list[str]]) -> None:
    formats = [words[1] for words in more if words[0] == "--format"]
    kind = formats[-1] if formats else "text"
    if kind == "bazel":
        assert all(line.startswith("//") for line in out.splitlines())
    elif kind == "text":
        assert out.strip()
    else:
        assert json.loads(out)


def run(workspace: Workspace, words: list[str]) -> int:
    """The exit code of plumb in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(workspace.caches))
        patch.setenv("COLUMNS", "200")
        patch.delenv("BUILD_WORKING_DIRECTORY", raising=False)
        patch.delenv("PLUMBLINE_BAZEL", raising=False)
        patch.setattr(sys, "argv", ["plumb", *words])
        patch.chdir(workspace.root)
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return int(ended.value.code or 0)
