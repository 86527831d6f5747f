"""Unpacked packages in miniature, for tests: same paths and links, next to no content."""

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_JRE = "usr/lib/jvm/java-21-openjdk-amd64"
_HEADER_BYTES, _SEGMENT_BYTES = 64, 56

_PROGRAMS = (
    "usr/bin/bazel",
    "usr/bin/patchelf",
    "usr/libexec/x86_64-linux-gnu/bazel/linux-sandbox",
    f"{_JRE}/bin/java",
    f"{_JRE}/lib/jspawnhelper",
)
_SHARED_OBJECTS = (
    "usr/lib/x86_64-linux-gnu/bazel/libcpu_profiler.so",
    f"{_JRE}/lib/libjava.so",
    f"{_LIBRARIES}/libc.so.6",
    f"{_LIBRARIES}/libz.so.1",
    f"{_LIBRARIES}/libnss_dns.so.2",
    f"{_LIBRARIES}/libunused.so.1",
)
_TEXTS = {
    "usr/share/bazel/A-server.jar": "",
    "usr/share/bazel/bazel_classpath_debian_depends.txt": (
        "/usr/share/java/guava.jar\n/usr/share/java/absent.jar\n"
    ),
    "usr/share/bazel/rules/python/python/pip_install/repositories.bzl": (
        '("pypi__pip", "u", "s"), ("pypi__installer", "u", "s"), '
        '("pypi__setuptools", "u", "s"), ("pypi__click", "u", "s")'
    ),
    "usr/lib/python3/dist-packages/installer/__init__.py": "",
    f"{_JRE}/release": "",
    f"{_JRE}/lib/jvm.cfg-default": "",
    f"{_JRE}/man/java.1": "",
    "etc/java-21-openjdk/jvm-amd64.cfg": "-server KNOWN\n",
    "etc/java-21-openjdk/security/java.security": "securerandom.source=file:/dev/random\n",
}


def elf_file(interpreter: str | None) -> bytes:
    """A 64-bit ELF header with one program header, which names `interpreter` if there is one."""
    name = (interpreter or "").encode() + b"\0"
    kind, start = (3 if interpreter else 1), _HEADER_BYTES + _SEGMENT_BYTES
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        *(3, 62, 1, 0),
        _HEADER_BYTES,
        *(0, 0, _HEADER_BYTES, _SEGMENT_BYTES, 1, 0, 0, 0),
    )
    return header + struct.pack("<IIQQQQQQ", kind, 4, start, 0, 0, len(name), len(name), 1) + name


def fake_loader(root: Path, maps: Mapping[str, str] | None = None, fails: str = "") -> Path:
    """Puts a script in the loader's place; returns the file where it notes what it should run.

    Args:
        root: where packages are unpacked.
        maps: soname to path, as `--list` should tell.
        fails: what it prints on refusing to run anything.
    """
    log, loader = root / "loader.log", root / "usr/lib64/ld-linux-x86-64.so.2"
    loader.parent.mkdir(parents=True, exist_ok=True)
    listing = "".join(
        f"echo '\t{name} => {path} (0x00007f0000000000)'\n" for name, path in (maps or {}).items()
    )
    refusal = f"echo '{fails}' >&2; exit 1\n" if fails else ""
    loader.write_text(
        "#!/bin/sh\nshift 2\n"
        f'if [ "$1" = --list ]; then\n{listing}:\nelse\n{refusal}echo "$@" >>{log}\nfi\n'
    )
    loader.chmod(0o755)
    return log


def write_jar(path: Path, class_path: str | None) -> None:
    """A jar whose manifest has `class_path`, folded as Java folds it; None: without a manifest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("A.class", b"")
        if class_path is not None:
            line = f"Class-Path: {class_path}"
            pieces = [line[:70], *(line[at : at + 69] for at in range(70, len(line), 69))]
            folded = "\r\n ".join(pieces)
            archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\n{folded}\r\n\r\n")


def unpack_fake_packages(root: Path) -> Path:
    """All that `prefix.PrefixBuilder` looks for, below `root`; returns the loader's log."""
    for name in [*_PROGRAMS, *_SHARED_OBJECTS, *_TEXTS]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    for name in _PROGRAMS:
        (root / name).write_bytes(elf_file("/lib64/ld-linux-x86-64.so.2"))
        (root / name).chmod(0o755)
    for name in _SHARED_OBJECTS:
        (root / name).write_bytes(elf_file(None))
    for name, text in _TEXTS.items():
        (root / name).write_text(text)
    write_jar(root / "usr/share/java/guava-33.jar", "failureaccess.jar")
    write_jar(root / "usr/share/java/failureaccess.jar", None)
    write_jar(root / "usr/share/java/unrelated.jar", None)
    _link_as_debian_does(root)
    wheel = root / "usr/share/python-wheels/pip-26.2-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pip/__init__.py", "")
        archive.writestr("pip/_vendor/certifi/cacert.pem", "")
    maps = {name: f"{root}/{_LIBRARIES}/{name}" for name in ("libc.so.6", "libz.so.1")}
    return fake_loader(root, maps=maps | {"libhost.so.1": "/usr/lib/libhost.so.1"})


def _link_as_debian_does(root: Path) -> None:
    links = {
        "usr/share/java/guava.jar": "guava-33.jar",
        "usr/share/bazel/linux-sandbox": "../../libexec/x86_64-linux-gnu/bazel/linux-sandbox",
        f"{_JRE}/conf": "",
        f"{_JRE}/conf/security": "/etc/java-21-openjdk/security",
        f"{_JRE}/lib/jvm.cfg": "/etc/java-21-openjdk/jvm-amd64.cfg",
        f"{_JRE}/lib/security": "",
        f"{_JRE}/lib/security/cacerts": "/etc/ssl/certs/java/cacerts",
        f"{_JRE}/lib/security/blocked.certs": "/etc/java-21-openjdk/security/absent",
        "usr/lib/jvm/java-1.21.0-openjdk-amd64": "java-21-openjdk-amd64",
    }
    for name, destination in links.items():
        if destination:
            (root / name).symlink_to(destination)
        else:
            (root / name).mkdir(parents=True)
