import os
from pathlib import Path

import pytest

from tools.bootstrap.errors import BrokenBuildError
from tools.bootstrap.fake_packages import unpack_fake_packages
from tools.bootstrap.prefix import (
    RC_NAME,
    PrefixBuilder,
    bazelrc,
    inline_absolute_links,
    rc_belongs_to,
)

FINAL = Path("/home/u/.cache/plumbline/bazel/7.7.1")
JRE = "usr/lib/jvm/java-21-openjdk-amd64"
LIBRARIES = "usr/lib/x86_64-linux-gnu"


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    root = tmp_path / "unpacked"
    root.mkdir()
    unpack_fake_packages(root)
    return root


@pytest.fixture
def staged(unpacked: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "staged"
    folder.mkdir()
    PrefixBuilder(unpacked, folder, FINAL).build()
    return folder


def test_every_program_and_no_library_gets_the_prefixs_loader(staged: Path) -> None:
    log = (staged.parent / "unpacked/loader.log").read_text().splitlines()
    loader = f"--set-interpreter {FINAL}/usr/lib64/ld-linux-x86-64.so.2 "
    patched = {line.partition(loader)[2] for line in log if loader in line}
    assert patched == {
        str(staged / name)
        for name in (
            "usr/bin/bazel",
            "usr/libexec/x86_64-linux-gnu/bazel/linux-sandbox",
            f"{JRE}/bin/java",
            f"{JRE}/lib/jspawnhelper",
        )
    }
    rpath = f"{FINAL}/{LIBRARIES}:{FINAL}/{JRE}/lib:{FINAL}/{JRE}/lib/server"
    assert sum(f"--force-rpath --set-rpath {rpath} " in line for line in log) == 4


def test_only_libraries_that_are_mapped_or_looked_up_by_name_are_kept(staged: Path) -> None:
    kept = {path.name for path in (staged / LIBRARIES).iterdir() if path.is_file()}
    assert kept == {"libc.so.6", "libz.so.1", "libnss_dns.so.2"}
    assert os.access(staged / "usr/lib64/ld-linux-x86-64.so.2", os.X_OK)


def test_the_class_path_names_the_jars_at_their_final_place(staged: Path) -> None:
    text = (staged / "usr/share/bazel/bazel_classpath_debian_depends.txt").read_text()
    assert text.splitlines() == [
        f"{FINAL}/usr/share/java/guava.jar",
        f"{FINAL}/usr/share/java/failureaccess.jar",
    ]
    jars = staged / "usr/share/java"
    assert {path.name for path in jars.iterdir()} == {"guava.jar", "failureaccess.jar"}
    assert not (jars / "guava.jar").is_symlink()


def test_the_jre_brings_its_own_configuration(staged: Path) -> None:
    jre = staged / JRE
    assert (jre / "lib/jvm.cfg").read_text() == "-server KNOWN\n"
    assert "securerandom" in (jre / "conf/security/java.security").read_text()
    assert not (jre / "lib/security/blocked.certs").is_symlink()
    assert (jre / "lib/security/cacerts").read_bytes()[:4] == b"\xfe\xed\xfe\xed"
    assert not (jre / "man").exists()


def test_no_link_leads_out_of_the_prefix(staged: Path) -> None:
    links = [path for path in staged.rglob("*") if path.is_symlink()]
    assert links, "Debian's relative links should have been kept"
    for link in links:
        assert link.resolve().is_relative_to(staged.resolve())
        assert link.exists()


def test_every_override_leads_to_a_repository_that_is_there(unpacked: Path, tmp_path: Path) -> None:
    for name in (
        *("rules/cc", "rules/java", "rules/license", "rules/proto"),
        *("tools/features", "tools/skylib", "tools/platforms"),
    ):
        (unpacked / "usr/share/bazel" / name).mkdir(parents=True)
    staged = tmp_path / "staged"
    staged.mkdir()
    PrefixBuilder(unpacked, staged, FINAL).build()

    lines = (staged / RC_NAME).read_text().splitlines()
    overrides = dict(
        line.split("--override_repository=")[1].split("=", 1)
        for line in lines
        if "--override_repository=" in line
    )
    assert {"rules_python", "bazel_skylib", "zlib", "pypi__pip", "pypi__click"} <= set(overrides)
    for path in overrides.values():
        assert (staged / Path(path).relative_to(FINAL)).is_dir(), path


def test_a_renamed_package_is_named(unpacked: Path, tmp_path: Path) -> None:
    (unpacked / f"{JRE}/bin/java").unlink()
    staged = tmp_path / "staged"
    staged.mkdir()
    with pytest.raises(BrokenBuildError, match=r"brought no usr/lib/jvm/.*/bin/java"):
        PrefixBuilder(unpacked, staged, FINAL).build()


def test_absent_libc_is_named(tmp_path: Path) -> None:
    (tmp_path / JRE).mkdir(parents=True)
    with pytest.raises(BrokenBuildError, match=r"brought no usr/lib/\*/libc\.so\.6"):
        PrefixBuilder(tmp_path, tmp_path, FINAL)


def test_relative_links_stay(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_text("x")
    (tmp_path / "tree/link").symlink_to("file")
    inline_absolute_links(tmp_path / "tree", tmp_path)
    assert (tmp_path / "tree/link").readlink() == Path("file")


def test_the_rc_belongs_to_the_place_it_was_made_for(tmp_path: Path) -> None:
    rc = tmp_path / RC_NAME
    rc.write_text(bazelrc(tmp_path / "bazel/7.7.1", Path(JRE), ["pypi__pip"]))
    assert rc_belongs_to(rc, tmp_path / "bazel")
    assert not rc_belongs_to(rc, tmp_path / "baz")
    assert not rc_belongs_to(rc, Path("/elsewhere/bazel"))
    assert not rc_belongs_to(tmp_path / "absent", tmp_path / "bazel")
