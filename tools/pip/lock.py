"""Re-locks requirements.in into requirements_lock.txt: `tools/bazel run //tools/pip:lock`."""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

# uv forks a resolution by Python version only where markers make it; one platform keeps it whole.
_ENVIRONMENT = (
    "sys_platform == 'linux' and platform_machine == 'x86_64' "
    "and platform_python_implementation == 'CPython' and python_full_version < '3.14'"
)
_HEADER = """\
# Written by `tools/bazel run //tools/pip:lock` from requirements.in. Do not edit by hand.
# One version a package, for CPython 3.11 to 3.13 on Linux x86-64.
"""
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?P<extras>\[[^\]]*\])?==(?P<version>[^ ;\\]+)")
_WHEEL = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)-.*\.whl$")


class LockError(Exception):
    """The lock cannot be written; the message says what to change."""


def normalise(name: str) -> str:
    """A package's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def public(version: str) -> str:
    """A version without its local part: `2.13.0+cpu` is a build of `2.13.0` (PEP 440)."""
    return version.partition("+")[0]


def parse(text: str) -> dict[tuple[str, str], list[str]]:
    """The hashes of each (name, version) that a lock's text pins."""
    hashes: dict[tuple[str, str], list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if pin := _PIN.match(line):
            current = hashes.setdefault((normalise(pin["name"]), pin["version"]), [])
        current += re.findall(r"--hash=(sha256:[0-9a-f]{64})", line)
    return hashes


def wheels_on_disk(folders: Iterable[Path]) -> Iterator[tuple[str, str, str]]:
    """(name, public version, hash) of each wheel in `folders`.

    An index may serve only torch's CUDA build; a CPU build that lies on disk, or that another
    index serves, is the same version and must be allowed by hash as well.
    """
    for folder in folders:
        for path in sorted(folder.glob("*.whl")):
            if match := _WHEEL.match(path.name):
                with path.open("rb") as wheel:
                    digest = hashlib.file_digest(wheel, "sha256").hexdigest()
                yield normalise(match["name"]), public(match["version"]), f"sha256:{digest}"


def render(
    resolved: str, extra: Iterable[tuple[str, str, str]], previous: str = ""
) -> tuple[str, list[str]]:
    """The lock's text and its package names, from what uv resolved.

    `extra` adds (name, version, hash) where that version is the one locked, and hashes that
    `previous` holds for an unchanged version are kept: a build that only another machine can see
    stays allowed. Markers go, since pip_parse knows one version a name.

    Raises LockError if a package was resolved to two versions, or a line cannot be read.
    """
    additions: dict[tuple[str, str], set[str]] = {}
    for name, version, digest in extra:
        additions.setdefault((name, version), set()).add(digest)
    for key, digests in parse(previous).items():
        additions.setdefault(key, set()).update(digests)
    pins = parse(resolved)
    names = [name for name, _ in pins]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise LockError(
            f"{', '.join(twice)}: resolved to more than one version by Python version; "
            "pip_parse takes one. Add a bound to requirements.in that all of 3.11 to 3.13 meet."
        )
    lines: list[str] = []
    for line in resolved.splitlines():
        if pin := _PIN.match(line):
            key = (normalise(pin["name"]), pin["version"])
            digests = sorted({*pins[key], *additions.get(key, ())})
            # torch needs the libraries that extras of cuda-toolkit name; the wheel's needs follow
            # from the extras that the lock shows.
            extras = (pin["extras"] or "").replace(" ", "")
            lines.append(f"{key[0]}{extras}=={key[1]} \\")
            lines += [f"    --hash={digest} \\" for digest in digests[:-1]]
            lines.append(f"    --hash={digests[-1]}")
        elif line.startswith("    #"):
            lines.append(line)
        elif not line.startswith("    --hash="):
            raise LockError(f"uv wrote a line that is no pin: {line!r}. Adapt tools/pip/lock.py.")
    return _HEADER + "\n".join(lines) + "\n", sorted(names)


def check(upgrade: Iterable[str], folders: Iterable[Path], previous: str) -> None:
    """Raises LockError for a package to upgrade that is not locked, or a folder that is none."""
    known = {name for name, _ in parse(previous)}
    for name in upgrade:
        if name != "*" and normalise(name) not in known:
            near = difflib.get_close_matches(normalise(name), known, n=1)
            hint = f"did you mean {near[0]}?" if near else "add it to requirements.in."
            raise LockError(f"'{name}' is not in the lock; {hint}")
    for folder in folders:
        if not folder.is_dir():
            raise LockError(f"no folder {folder}: --find-links takes folders of wheels")


def direct(requirements: str) -> list[str]:
    """The names that a requirements file asks for itself, as label names, sorted."""
    found = re.findall(r"^([A-Za-z0-9][A-Za-z0-9._-]*)", requirements, re.MULTILINE)
    return sorted(normalise(name).replace("-", "_") for name in found)


def packages_bzl(names: Iterable[str]) -> str:
    """The .bzl that names each package of requirements.in, since BUILD files cannot read it."""
    rows = "".join(f'    "{name}",\n' for name in names)
    return (
        '"""The packages of requirements.in. Written by //tools/pip:lock."""\n\n'
        f"PACKAGES = [\n{rows}]\n"
    )


def sources_bazelrc(names: Iterable[str]) -> str:
    """The .bazelrc lines behind each place that packages can come from."""
    names = list(names)
    places = {
        "directories": "@pip_{}//:directory",
        "files": "@pip_{}//:pkg",
        "image": "//tools/pip:held_by_image",
        "packed": "@pip_{}//:packed",
    }
    lines = ["# Where third-party packages come from. Written by //tools/pip:lock."]
    for place, target in places.items():
        lines.append("")
        for name in names:
            lines.append(f"build:{place} --//tools/pip:{name}={target.format(name)}")
    return "\n".join(lines) + "\n"


def _uv(root: Path, upgrade: list[str]) -> str:
    project = f'[tool.uv]\nenvironments = ["{_ENVIRONMENT}"]\n'
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal"]
    command += ["--python-version", "3.11", "--generate-hashes", "--fork-strategy", "fewest"]
    command += ["--no-emit-index-url", "--no-header", "--annotation-style", "split"]
    command += ["--no-strip-extras"]
    command += [word for name in upgrade for word in ("--upgrade-package", name)]
    scratch = Path(os.environ.get("TMPDIR", "/tmp")) / f"plumbline-lock-{os.getpid()}"
    scratch.mkdir()
    try:
        (scratch / "pyproject.toml").write_text(project)
        (scratch / "requirements.in").write_text((root / "requirements.in").read_text())
        previous = root / "requirements_lock.txt"
        if previous.exists() and "*" not in upgrade:
            (scratch / "out.txt").write_text(previous.read_text())
        command += ["requirements.in", "--output-file", "out.txt"]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LockError(f"uv could not resolve requirements.in:\n{done.stderr.strip()}")
        return (scratch / "out.txt").read_text()
    finally:
        for path in scratch.iterdir():
            path.unlink()
        scratch.rmdir()


def _write(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.replace(path)


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/bazel run //tools/pip:lock --", description=__doc__
    )
    parser.add_argument(
        "--upgrade", nargs="+", default=[], metavar="NAME",
        help="packages to move to their newest version; '*' for all (default: keep what is locked)",
    )  # fmt: skip
    parser.add_argument(
        "--find-links", nargs="+", default=[], type=Path, metavar="DIR",
        help="folders of wheels whose hashes are allowed too, such as a CPU build of torch",
    )  # fmt: skip
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Writes the lock and its list of packages; returns the exit status."""
    arguments = _arguments(argv)
    root = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    lock = root / "requirements_lock.txt"
    previous = lock.read_text() if lock.exists() else ""
    try:
        check(arguments.upgrade, arguments.find_links, previous)
        resolved = _uv(root, arguments.upgrade)
        text, names = render(resolved, wheels_on_disk(arguments.find_links), previous)
    except LockError as error:
        print(f"lock: {error}", file=sys.stderr)
        return 1
    packages = direct((root / "requirements.in").read_text())
    _write(lock, text)
    _write(root / "tools/pip/packages.bzl", packages_bzl(packages))
    _write(root / "tools/pip/sources.bazelrc", sources_bazelrc(packages))
    print(f"lock: {len(names)} packages in {lock.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
