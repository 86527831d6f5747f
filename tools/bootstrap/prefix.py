"""Puts together what Bazel needs of the unpacked packages, in a tree that runs at one fixed path."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from tools.bootstrap import elf, jars, pypi, trust
from tools.bootstrap.errors import BrokenBuildError

RC_NAME = "plumbline.bazelrc"
_SHARE = Path("usr/share/bazel")
_PYPI = Path("pypi")
_CLASS_PATH_FILE = _SHARE / "bazel_classpath_debian_depends.txt"
_TREES = ("usr/share/bazel", "usr/libexec/*/bazel", "usr/lib/*/bazel", "usr/lib/*/jni")
_JRE_GLOB = "usr/lib/jvm/java-[0-9][0-9]-*"
_JRE_PARTS = ("conf", "lib", "release", "bin/java")

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
_STUBS = {
    "remote_coverage_tools": (
        'filegroup(name = "coverage_report_generator", visibility = ["//visibility:public"])\n'
        'filegroup(name = "lcov_merger", visibility = ["//visibility:public"])\n'
    ),
    "zlib": 'cc_library(name = "zlib", visibility = ["//visibility:public"])\n',
}


class PrefixBuilder:
    """Moves parts of `unpacked` to `staged`, for use at `final` after a rename.

    Args:
        unpacked: where all packages were unpacked; parts of it are moved away.
        staged: the folder to fill, on the same file system.
        final: the absolute path that `staged` will be renamed to.
    """

    def __init__(self, unpacked: Path, staged: Path, final: Path) -> None:
        self.unpacked, self.staged, self.final = unpacked, staged, final
        self.jre = self._one(_JRE_GLOB, "the Java runtime").relative_to(unpacked)
        self.libraries = self._one("usr/lib/*/libc.so.6", "the C library").parent.relative_to(unpacked)

    def _one(self, pattern: str, what: str) -> Path:
        found = [path for path in sorted(self.unpacked.glob(pattern)) if not path.is_symlink()]
        if not found:
            raise BrokenBuildError(f"The packages brought no {pattern} ({what}).")
        return found[0]

    def build(self) -> None:
        """Does it all, in the order that the steps need."""
        self._take("usr/bin/bazel")
        for pattern in _TREES:
            for path in sorted(self.unpacked.glob(pattern)):
                self._take(path.relative_to(self.unpacked))
        rules_python = self.staged / _SHARE / _REPOSITORIES["rules_python"]
        tools = pypi.write_repositories(self.unpacked, rules_python, self.staged / _PYPI)
        self._take_jre()
        self._take_jars()
        self._take_libraries_and_patch()
        self._write_stubs()
        (self.staged / RC_NAME).write_text(bazelrc(self.final, self.jre, tools), encoding="utf-8")

    def _take(self, name: str | Path) -> None:
        target = self.staged / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(self.unpacked / name, target)
        except FileNotFoundError:
            raise BrokenBuildError(f"The packages brought no {name}.") from None

    def _take_jre(self) -> None:
        for part in _JRE_PARTS:
            self._take(self.jre / part)
        jre = self.staged / self.jre
        inline_absolute_links(jre, self.unpacked)
        fallback = pypi.certificates(self.staged / _PYPI)
        trust.write_trust_store(jre / "lib/security/cacerts", fallback)

    def _take_jars(self) -> None:
        listing = self.staged / _CLASS_PATH_FILE
        names = jars.closure(self.unpacked, listing.read_text(encoding="utf-8").split())
        for name in names:
            source, target = self.unpacked / name.relative_to("/"), self.staged / name.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            # Several names may link to one archive, so this copies where the rest is moved.
            shutil.copyfile(source, target)
        listing.write_text("".join(f"{self.final}{name}\n" for name in names), encoding="utf-8")

    def _take_libraries_and_patch(self) -> None:
        jre_lib = self.jre / "lib"
        folders = [self.unpacked / self.libraries, self.staged / jre_lib, self.staged / jre_lib / "server"]
        loader = elf.Loader(self.unpacked, folders)
        patchelf = self.unpacked / "usr/bin/patchelf"
        binaries = [path for path in self.staged.rglob("*") if elf.is_elf(path)]
        programs = [path for path in binaries if elf.interpreter(path)]
        needed = {path for binary in binaries for path in loader.libraries(binary)}
        needed |= set((self.unpacked / self.libraries).glob("libnss_*.so.*"))
        for library in needed:
            if library.is_relative_to(self.unpacked):
                target = self.staged / self.libraries / library.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(library, target)
                target.chmod(0o755)
        ld = loader.path.relative_to(self.unpacked)
        rpath = ":".join(str(self.final / part) for part in (self.libraries, jre_lib, jre_lib / "server"))
        target = self.staged / ld
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(loader.path, target)
        target.chmod(0o755)
        for program in programs:
            elf.set_loader(loader, patchelf, program, self.final / ld, rpath)

    def _write_stubs(self) -> None:
        for name, build in _STUBS.items():
            folder = self.staged / "stubs" / name
            folder.mkdir(parents=True)
            (folder / "WORKSPACE").write_text(f'workspace(name = "{name}")\n', encoding="utf-8")
            (folder / "BUILD.bazel").write_text(build, encoding="utf-8")


def inline_absolute_links(tree: Path, root: Path) -> None:
    """Replaces each absolute link in `tree` by the file below `root`; drops those without one.

    Debian's JRE links its configuration to /etc, where this machine may have nothing or another's.
    """
    for link in [path for path in tree.rglob("*") if path.is_symlink()]:
        destination = Path(os.readlink(link))
        if not destination.is_absolute():
            continue
        link.unlink()
        source = root / destination.relative_to("/")
        if source.is_dir():
            shutil.copytree(source, link)
        elif source.is_file():
            shutil.copyfile(source, link)


def bazelrc(final: Path, jre: Path, python_tools: Iterable[str]) -> str:
    """The rc file that makes Bazel live in `final`: startup options, packed rules, stubs."""
    lines = [
        f"startup --install_base={final / _SHARE}",
        "startup --trust_install_base",
        f"startup --server_javabase={final / jre}",
        "common --noenable_bzlmod",
    ]
    folders = {name: _SHARE / folder for name, folder in _REPOSITORIES.items()}
    folders |= {name: Path("stubs") / name for name in _STUBS}
    folders |= {name: _PYPI / name for name in python_tools}
    lines += [f"common --override_repository={name}={final / folder}" for name, folder in folders.items()]
    return "\n".join(lines) + "\n"
