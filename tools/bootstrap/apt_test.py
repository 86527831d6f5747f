import os
from pathlib import Path

import pytest

from tools.bootstrap import apt
from tools.bootstrap.errors import (
    BootstrapError,
    DamagedPackageError,
    MirrorError,
    NoKeyringError,
    NoSpaceError,
)

MIRROR = "http://m.example/debian"
DUMP = """\
APT "";
APT::Architecture "arm64";
APT::Get::AllowUnauthenticated "true";
Acquire "";
Acquire::Check-Valid-Until "false";
Acquire::http "";
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::https::CAInfo "/etc/ssl/own.pem";
Acquire::AllowInsecureRepositories "true";
Acquire::AllowWeakRepositories "true";
Acquire::Languages "environment";
Dir::Cache "var/cache/apt";
"""


def test_only_what_reaches_a_mirror_is_taken_over() -> None:
    assert apt.reaching_options(DUMP).splitlines() == [
        'Acquire::Check-Valid-Until "false";',
        'Acquire::http "";',
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::https::CAInfo "/etc/ssl/own.pem";',
    ]


def test_the_architecture_is_the_machines() -> None:
    assert apt.native_architecture(DUMP) == "arm64"


def test_the_first_keyring_there_is_taken(tmp_path: Path) -> None:
    second = tmp_path / "b.pgp"
    second.write_bytes(b"")
    assert apt.find_keyring([tmp_path / "a.gpg", second]) == second


def test_no_keyring_names_the_file_and_the_package(tmp_path: Path) -> None:
    with pytest.raises(NoKeyringError, match=r"a\.gpg.*debian-archive-keyring"):
        apt.find_keyring([tmp_path / "a.gpg"])


# Lines as apt 2.6 (Debian 12) and apt 3.0 (Debian 13) print them.
@pytest.mark.parametrize(
    ("output", "kind", "text"),
    [
        (
            "E: Failed to fetch http://m.example/debian/dists/testing/InRelease  Could not connect "
            "to m.example:80 (192.0.2.1). - connect (111: Connection refused)",
            MirrorError,
            r"Connection refused\)?[\s\S]*apt sources",
        ),
        (
            "E: The repository 'http://m.example/debian nosuch Release' does not have a Release "
            "file.",
            MirrorError,
            "does not have a Release file",
        ),
        (
            "W: GPG error: http://m.example/debian testing InRelease: The following signatures "
            "couldn't be verified because the public key is not available: NO_PUBKEY 6ED0E7B8",
            NoKeyringError,
            r"NO_PUBKEY 6ED0E7B8\n.*debian-archive-keyring up to date",
        ),
        (
            "W: OpenPGP signature verification failed: Sub-process /usr/bin/sqv returned an error "
            "code (1), error message is: Missing key 4CB50190, which is needed to verify",
            NoKeyringError,
            "Missing key 4CB50190",
        ),
        (
            "E: Release file for http://m.example/debian/dists/testing/InRelease is expired "
            "(invalid since 24d 5h 3min 41s).",
            MirrorError,
            r"clock is wrong[\s\S]*Check-Valid-Until",
        ),
        (
            "E: Failed to fetch http://m.example/x.deb  Hash Sum mismatch",
            DamagedPackageError,
            "try again in some minutes",
        ),
        (
            "E: You don't have enough free space in /home/u/archives/.",
            NoSpaceError,
            "enough free space",
        ),
        (
            "Err:2 http://m.example/debian x\n  Write error - write (28: No space left on device)",
            NoSpaceError,
            "file system is full",
        ),
        (
            "The following packages have unmet dependencies:\n bazel-bootstrap : Depends: libc6\n"
            "E: Unable to correct problems, you have held broken packages.",
            MirrorError,
            r"do not fit together[\s\S]*Depends: libc6[\s\S]*bazelisk",
        ),
        ("", MirrorError, "apt-get said nothing"),
    ],
)
def test_each_failure_says_what_happened_and_what_to_do(
    output: str, kind: type[BootstrapError], text: str
) -> None:
    error = apt.explain(output, MIRROR)
    assert type(error) is kind
    with pytest.raises(kind, match=text):
        raise error


def test_repeated_complaints_are_shown_once() -> None:
    line = "Err:2 http://m.example/debian testing/main amd64 Packages"
    assert str(apt.explain(f"{line}\n{line}\n", MIRROR)).count(line) == 1


@pytest.fixture
def fake_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH whose apt-config prints DUMP and whose apt-get runs the script `behaviour`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "dump").write_text(DUMP)
    for name, script in {
        "apt-config": f"cat {tmp_path}/dump",
        "apt-get": f'echo "$@" >>{tmp_path}/calls; cat "$APT_CONFIG" >{tmp_path}/seen; '
        f". {tmp_path}/behaviour",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "behaviour").write_text("exit 0\n")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return tmp_path


def test_apt_gets_a_configuration_of_its_own(fake_programs: Path) -> None:
    state = fake_programs / "state"
    private = apt.PrivateApt(state, MIRROR, "testing", Path("/k.gpg"))

    private.update()

    seen = (fake_programs / "seen").read_text()
    assert "AllowInsecure" not in seen
    assert "AllowUnauthenticated" not in seen
    assert 'Acquire::http::Proxy "http://proxy.example:3128";' in seen
    assert 'APT::Architectures { "arm64"; };' in seen
    for setting in ("Dir::State::status", "Dir::State::lists", "Dir::Cache::archives"):
        assert f'{setting} "{state}/' in seen
    sources = (state / "suite.sources").read_text()
    assert f"URIs: {MIRROR}\nSuites: testing\nComponents: main\nSigned-By: /k.gpg\n" in sources


def test_the_closure_is_asked_with_an_empty_archive_folder(fake_programs: Path) -> None:
    line = f"'{MIRROR}/a_1_all.deb' a_1_all.deb 7 SHA256:{'ab' * 32}"
    (fake_programs / "behaviour").write_text(f'echo "{line}"\n')
    private = apt.PrivateApt(fake_programs / "state", MIRROR, "testing", Path("/k.gpg"))
    (private.archives / "a_1_all.deb").write_bytes(b"fetched")

    (package,) = private.closure(["a"])

    assert package.filename == "a_1_all.deb"
    call = (fake_programs / "calls").read_text()
    folder = call.partition("Dir::Cache::archives=")[2].split()[0]
    assert [path.name for path in Path(folder).iterdir()] == ["partial"]


def test_a_failure_carries_apts_words(fake_programs: Path) -> None:
    (fake_programs / "behaviour").write_text("echo 'E: it broke' >&2; exit 100\n")
    private = apt.PrivateApt(fake_programs / "state", MIRROR, "testing", Path("/k.gpg"))
    with pytest.raises(MirrorError, match="E: it broke"):
        private.update()


def test_waiting_ticks(fake_programs: Path) -> None:
    (fake_programs / "behaviour").write_text("sleep 0.7\n")
    private = apt.PrivateApt(fake_programs / "state", MIRROR, "testing", Path("/k.gpg"))
    ticks: list[int] = []
    private.download(["a"], lambda: ticks.append(private.fetched_bytes()))
    assert ticks
    assert set(ticks) == {0}


def test_half_fetched_files_count(fake_programs: Path) -> None:
    private = apt.PrivateApt(fake_programs / "state", MIRROR, "testing", Path("/k.gpg"))
    (private.archives / "a.deb").write_bytes(b"12345")
    (private.archives / "partial" / "b.deb").write_bytes(b"123")
    assert private.fetched_bytes() == 8
