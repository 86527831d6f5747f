"""Collects the Java archives that Bazel's server loads."""

import zipfile
from collections.abc import Iterable
from pathlib import Path


def manifest_class_path(jar: Path) -> list[str]:
    """The entries of the `Class-Path` in `jar`'s manifest (relative or absolute paths)."""
    with zipfile.ZipFile(jar) as archive:
        try:
            text = archive.read("META-INF/MANIFEST.MF").decode(errors="replace")
        except KeyError:
            return []
    # A line of a manifest is at most 72 bytes; it goes on after a newline and one blank.
    for line in text.replace("\r\n", "\n").replace("\n ", "").splitlines():
        name, _, value = line.partition(":")
        if name.lower() == "class-path":
            return value.split()
    return []


def closure(root: Path, names: Iterable[str]) -> list[Path]:
    """The jars `names` and all that their manifests name, as paths below `root`, in search order.

    The server is started with a class path of its own making, in which Java ignores a manifest's
    absolute entries once the archives have moved: so all of them are named.

    Args:
        root: where packages were unpacked.
        names: absolute paths as Debian's class path file lists them (`/usr/share/java/guava.jar`).

    Returns:
        Absolute paths without `root` in front, such as `/usr/share/java/guava.jar`; entries that
        no package brought are left out.
    """
    ordered: dict[Path, None] = {}
    waiting = [Path(name) for name in names]
    while waiting:
        name = waiting.pop(0)
        jar = root / name.relative_to("/")
        if name in ordered or not jar.is_file():
            continue
        ordered[name] = None
        waiting += [name.parent / entry for entry in manifest_class_path(jar)]
    return list(ordered)
