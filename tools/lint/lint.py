"""Style of the whole repository: `tools/bazel run //tools/lint`, with `-- --fix` to mend it."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ruff.__main__ import find_ruff_bin

_HOOK = """\
#!/bin/sh
exec tools/bazel run --noshow_progress --ui_event_filters=-info //tools/lint
"""
# Not those of code blocks' languages, of other sites, or within the page.
_LINK = re.compile(r"\]\((?![a-z]+:)([^)\s]+)\)")
_STARLARK = ("BUILD.bazel", "WORKSPACE", ".bzl")


class LintError(Exception):
    """A checker could not run; the message says what to do."""


def workspace() -> Path:
    """The checkout, whether asked by `bazel run` or from inside a test's runfiles."""
    asked = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    # A source file in the runfiles is a link to the checkout's own.
    return Path(asked) if asked else Path(__file__).resolve().parents[2]


def sources(root: Path, *suffixes: str) -> list[str]:
    """Tracked and new files below `root` that end in one of `suffixes` and are not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    safe = ["git", "-c", f"safe.directory={root}", *command[1:]]
    done = subprocess.run(safe, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LintError(f"git cannot list {root}: {done.stderr.strip()}")
    found = [name for name in done.stdout.split("\0") if name.endswith(suffixes)]
    return [name for name in found if (root / name).is_file()]


def _run(root: Path, command: Sequence[str], **environ: str) -> bool:
    sys.stdout.flush()
    return (
        subprocess.run(command, cwd=root, env={**os.environ, **environ}, check=False).returncode
        == 0
    )


def ruff(root: Path, fix: bool) -> bool:
    """Lint and format of Python."""
    program = find_ruff_bin()
    files = sources(root, ".py")
    check = [program, "check", "--no-cache", *(["--fix"] if fix else []), *files]
    form = [program, "format", "--no-cache", *([] if fix else ["--diff"]), *files]
    # Formatted first, since it shortens the lines that the check would find too long.
    return all([_run(root, form), _run(root, check)])


def mypy(root: Path, fix: bool) -> bool:
    """Types of Python, in strict mode; nothing to fix by itself."""
    del fix
    cache = os.environ.get("TEST_TMPDIR", str(root / ".mypy_cache"))
    # What this machine's python happens to hold is no input of the check.
    alone = ["--no-site-packages", "--cache-dir", cache]
    command = [sys.executable, "-m", "mypy", *alone, *sources(root, ".py")]
    # mypy looks for typed packages beside its interpreter only; ours lie in the runfiles.
    wheels = [path for path in sys.path if ".runfiles" in path and [*Path(path).glob("*/py.typed")]]
    return _run(root, command, MYPYPATH=os.pathsep.join(wheels))


def buildifier(root: Path, fix: bool) -> bool:
    """Lint and format of BUILD files, WORKSPACE and .bzl."""
    program = Path(os.environ["PLUMBLINE_BUILDIFIER"]).resolve()
    modes = ["--mode=fix", "--lint=fix"] if fix else ["--mode=diff", "--lint=warn"]
    return _run(root, [str(program), *modes, *sources(root, *_STARLARK)])


def links(root: Path, fix: bool) -> bool:
    """Each relative link of a Markdown file leads to a file; nothing to fix by itself."""
    del fix
    fine = True
    for name in sources(root, ".md"):
        for target in _LINK.findall((root / name).read_text()):
            path = target.partition("#")[0]
            if path and not (root / name).parent.joinpath(path).exists():
                print(f"{name}: the link to {target} leads nowhere")
                fine = False
    return fine


def install_hook(root: Path) -> int:
    """Makes git run the checks before each commit; leaves a hook of the user's own alone."""
    command = ["git", "rev-parse", "--path-format=absolute", "--git-path", "hooks/pre-commit"]
    asked = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if asked.returncode:
        raise LintError(f"git knows no hooks of {root}: {asked.stderr.strip()}")
    hook = Path(asked.stdout.strip())
    if hook.exists() and hook.read_text() != _HOOK:
        print(f"lint: {hook} exists already; add this to it:\n{_HOOK}", file=sys.stderr)
        return 1
    hook.parent.mkdir(parents=True, exist_ok=True)
    hook.write_text(_HOOK)
    hook.chmod(0o755)
    print(f"lint: wrote {hook}")
    return 0


CHECKS: dict[str, Callable[[Path, bool], bool]] = {
    "buildifier": buildifier,
    "links": links,
    "mypy": mypy,
    "ruff": ruff,
}


def main(argv: Sequence[str]) -> int:
    """Runs the checks asked for (all by default); 1 if one found something, 2 if one cannot run."""
    parser = argparse.ArgumentParser(prog="tools/bazel run //tools/lint --", description=__doc__)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(CHECKS)}")
    parser.add_argument("--install-hook", action="store_true", help="check before each commit")
    parser.add_argument("--fix", action="store_true", help="write what can be mended by itself")
    arguments = parser.parse_args(argv)
    if unknown := sorted(set(arguments.checks) - set(CHECKS)):
        parser.error(f"unknown check '{unknown[0]}': wanted one of {', '.join(CHECKS)}")
    results = {}
    try:
        if arguments.install_hook:
            return install_hook(workspace())
        for name in arguments.checks or CHECKS:
            results[name] = CHECKS[name](workspace(), arguments.fix)
    except LintError as error:
        print(f"lint: {error}", file=sys.stderr)
        return 2
    for name, fine in results.items():
        print(f"{name}: {'ok' if fine else 'FAILED'}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
