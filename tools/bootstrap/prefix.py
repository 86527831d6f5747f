"""Puts together what Bazel needs of the unpacked packages: a tree that runs at one fixed path."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from tools.bootstrap import elf, jars, pypi, trust
from tools.bootstrap.errors import BrokenBuildError

RC_NAME = "plumbline.bazelrc"
_SHARE = Path("usr/share/bazel")
_CLASS_PATH_FILE = _SHARE / "bazel_classpath_debian_depends.txt"
_PYPI = Path("pypi")
_STUBS = Path("stubs")
_PARTS = ("usr/bin/bazel", "usr/share/bazel", "usr/libexec/*/bazel", "usr/lib/*/bazel")
_JRE = "usr/lib/jvm/java-[0-9][0-9]-*"
_JRE_PARTS = ("conf", "lib", "release", "bin/java")
_C_LIBRARY = "usr/lib/*/libc.so.6"

# Repository name to its folder under usr/share/bazel. Debian packs them to fit this Bazel.
_REPOSITORIES = {
    "bazel_features": "tools/features",
    "bazel_skylib": "tools/skylib",
    "platforms": "tools/platforms",
    "rules_cc": "rules/cc",
    "rules_java": "rules/java",
    "rules_license": "rules/license",
    "rules_proto": "rules/proto",
    "rules_python": "rules/python",
}

# Repositories that Bazel's own BUILD files name and that Debian does not pack. Nothing is built
# from them; without them `rdeps(//..., x)` does not load.
_STUB_BUILDS = {
    "remote_coverage_tools": (
        'filegroup(name = "coverage_report_generator", visibility = ["//visibility:public"])\n'
        'filegroup(name = "lcov_merger", visibility = ["//visibility:public"])\n'
    ),
    "zlib": 'cc_library(name = "zlib", visibility = ["//visibility:public"])\n',
}


class PrefixBuilder:
    """Fills `staged` from `unpacked`, for use at `final` after a rename.

    Args:
        unpacked: where all packages were unpacked; parts of it are moved away.
        staged: an empty folder on the same file system.
        final: the absolute path that `staged` will be renamed to.

    Raises:
        BrokenBuildError: the packages lack something that is needed.
    """

    def __init__(self, unpacked: Path, staged: Path, final: Path) -> None:
        self.unpacked, self.staged, self.final = unpacked, staged, final
        self.jre = self._find(_JRE)[0]
        self.libraries = self._find(_C_LIBRARY)[0].parent

    def build(self) -> None:
        """Does it all, in the order that the steps need."""
        for pattern in _PARTS:
            for name in self._find(pattern):
                self._move(name)
        tools = self._write_repositories()
        self._move_jre()
        self._copy_jars()
        self._copy_libraries_and_patch()
        rc = bazelrc(self.final, self.jre, tools)
        (self.staged / RC_NAME).write_text(rc, encoding="utf-8")

    def _find(self, pattern: str) -> list[Path]:
        """What the packages brought for `pattern`, relative to the root; links do not count."""
        found = [path for path in sorted(self.unpacked.glob(pattern)) if not path.is_symlink()]
        if not found:
            raise BrokenBuildError(f"The packages brought no {pattern}: were they renamed?")
        return [path.relative_to(self.unpacked) for path in found]

    def _target(self, name: Path) -> Path:
        target = self.staged / name
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def _move(self, name: Path) -> None:
        source = self.unpacked / name
        if not source.exists():
            raise BrokenBuildError(f"The packages brought no {name}: were they renamed?")
        source.rename(self._target(name))

    def _copy(self, name: Path, source: Path) -> None:
        target = self._target(name)
        shutil.copyfile(source, target)
        target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)

    def _write_repositories(self) -> list[str]:
        """Writes the stubs and the Python tools; returns the names of the latter."""
        for name, build in _STUB_BUILDS.items():
            workspace = self._target(_STUBS / name / "WORKSPACE")
            workspace.write_text(f'workspace(name = "{name}")\n', encoding="utf-8")
            workspace.with_name("BUILD.bazel").write_text(build, encoding="utf-8")
        rules_python = self.staged / _SHARE / _REPOSITORIES["rules_python"]
        return pypi.write_repositories(self.unpacked, rules_python, self.staged / _PYPI)

    def _move_jre(self) -> None:
        for part in _JRE_PARTS:
            self._move(self.jre / part)
        jre = self.staged / self.jre
        inline_absolute_links(jre, self.unpacked)
        fallback = pypi.certificates(self.staged / _PYPI)
        trust.write_trust_store(jre / "lib/security/cacerts", fallback)

    def _copy_jars(self) -> None:
        listing = self.staged / _CLASS_PATH_FILE
        names = jars.closure(self.unpacked, listing.read_text(encoding="utf-8").split())
        for name in names:
            # Several names may link to one archive, so this copies where others move.
            inside = name.relative_to("/")
            self._copy(inside, self.unpacked / inside)
        listing.write_text("".join(f"{self.final}{name}\n" for name in names), encoding="utf-8")

    def _copy_libraries_and_patch(self) -> None:
        java = [self.jre / "lib", self.jre / "lib/server"]
        folders = [self.unpacked / self.libraries, *(self.staged / folder for folder in java)]
        loader = elf.Loader(self.unpacked, folders)
        binaries = [path for path in self.staged.rglob("*") if elf.is_elf(path)]
        programs = [path for path in binaries if elf.interpreter(path)]
        needed = {path for binary in binaries for path in loader.libraries(binary)}
        # The C library loads these by name, when it looks up users and hosts.
        needed |= set((self.unpacked / self.libraries).glob("libnss_*.so.*"))
        for library in needed:
            if library.is_relative_to(self.unpacked):
                self._copy(self.libraries / library.name, library)
        ld = loader.path.relative_to(self.unpacked)
        self._copy(ld, loader.path)
        rpath = ":".join(str(self.final / folder) for folder in [self.libraries, *java])
        patchelf = self.unpacked / "usr/bin/patchelf"
        for program in programs:
            elf.set_loader(loader, patchelf, program, self.final / ld, rpath)


def inline_absolute_links(tree: Path, root: Path) -> None:
    """Replaces each absolute link in `tree` by the file below `root`; drops those without one.

    Debian's JRE links its configuration to /etc, where this machine may have nothing or another's.
    """
    for link in [path for path in tree.rglob("*") if path.is_symlink()]:
        destination = link.readlink()
        if not destination.is_absolute():
            continue
        link.unlink()
        source = root / destination.relative_to("/")
        if source.is_dir():
            shutil.copytree(source, link)
        elif source.is_file():
            shutil.copyfile(source, link)


def bazelrc(final: Path, jre: Path, python_tools: Iterable[str]) -> str:
    """The rc file that makes Bazel live in `final`: startup options, packed rules, stubs.

    tools/bazel and `rc_belongs_to` read its first line.
    """
    folders = {name: _SHARE / folder for name, folder in _REPOSITORIES.items()}
    folders |= {name: _STUBS / name for name in _STUB_BUILDS}
    folders |= {name: _PYPI / name for name in python_tools}
    lines = [
        f"startup --install_base={final / _SHARE}",
        "startup --trust_install_base",
        f"startup --server_javabase={final / jre}",
        "common --noenable_bzlmod",
        *(f"common --override_repository={name}={final / at}" for name, at in folders.items()),
    ]
    return "\n".join(lines) + "\n"


def rc_belongs_to(rc: Path, home: Path) -> bool:
    """Whether `rc` was written for a prefix in `home`, which is the only place where it runs."""
    if not rc.is_file():
        return False
    first = rc.read_text(encoding="utf-8").partition("\n")[0]
    return first.startswith(f"startup --install_base={home}/")
