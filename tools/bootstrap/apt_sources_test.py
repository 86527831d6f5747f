from pathlib import Path

import pytest

from tools.bootstrap.apt_sources import (
    Source,
    archive_mirrors,
    parse_deb822,
    parse_one_line,
    read_sources,
)
from tools.bootstrap.errors import NoMirrorError

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def test_one_line_reads_options_comments_and_components() -> None:
    text = """\
# deb http://commented.example/debian bookworm main
deb http://one.example/debian bookworm main contrib # trailing comment

deb [arch=amd64 signed-by=/k.gpg trusted=no] http://two.example/debian bookworm-updates main
deb-src http://source.example/debian bookworm main
debug nothing here
"""
    assert parse_one_line(text) == [
        Source(("http://one.example/debian",), ("bookworm",), ("main", "contrib")),
        Source(("http://two.example/debian",), ("bookworm-updates",), ("main",), "/k.gpg"),
    ]


def test_one_line_keeps_a_cdrom_with_blanks_in_one_piece() -> None:
    (source,) = parse_one_line("deb cdrom:[Debian GNU/Linux 12.5 _Bookworm_]/ bookworm main")
    assert source.uris == ("cdrom:[Debian GNU/Linux 12.5 _Bookworm_]/",)
    assert source.suites == ("bookworm",)


def test_one_line_accepts_a_flat_repository_without_components() -> None:
    (source,) = parse_one_line("deb file:/srv/packages ./")
    assert source == Source(("file:/srv/packages",), ("./",), ())


def test_deb822_reads_lists_comments_and_continuations() -> None:
    text = f"""\
# The archive itself
Types: deb deb-src
URIs: http://one.example/debian
# once: http://old.example/debian
 http://two.example/debian
Suites: trixie trixie-updates
Components: main
 contrib
Signed-By: {KEYRING}

Types: deb-src
URIs: http://source.example/debian
Suites: trixie
Components: main

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: trixie
Components: main
"""
    assert parse_deb822(text) == [
        Source(
            ("http://one.example/debian", "http://two.example/debian"),
            ("trixie", "trixie-updates"),
            ("main", "contrib"),
            KEYRING,
        )
    ]


def test_deb822_field_names_are_case_insensitive_and_keys_may_be_embedded() -> None:
    text = """\
types: deb
uris: http://one.example/debian
suites: trixie
components: main
signed-by:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
 -----END PGP PUBLIC KEY BLOCK-----
"""
    (source,) = parse_deb822(text)
    assert source.components == ("main",)
    assert "mQINBF" in source.signed_by


def test_deb822_skips_a_stanza_without_uris() -> None:
    assert parse_deb822("Types: deb\nSuites: trixie\nComponents: main\n") == []


def test_files_are_read_in_apts_order_by_their_suffix(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://main.example/debian trixie main\n")
    (parts / "b.list").write_text("deb http://b.example/debian trixie main\n")
    (parts / "a.sources").write_text(
        "Types: deb\nURIs: http://a.example/debian\nSuites: trixie\nComponents: main\n"
    )
    (parts / "c.list.save").write_text("deb http://saved.example/debian trixie main\n")

    sources = read_sources(tmp_path)

    assert [source.uris[0] for source in sources] == [
        "http://main.example/debian",
        "http://a.example/debian",
        "http://b.example/debian",
    ]
    assert sources[1].origin == str(parts / "a.sources")


def test_a_machine_without_sources_has_none(tmp_path: Path) -> None:
    assert read_sources(tmp_path) == []


def test_mirrors_leave_out_security_and_other_vendors() -> None:
    sources = parse_one_line(
        f"""\
deb http://security.example/debian-security bookworm-security main
deb http://vendor.example/apt cloud-sdk-bookworm main
deb [signed-by=/usr/share/keyrings/vendor.gpg] http://tools.example/apt bookworm main
deb http://docker.example/debian bookworm stable
deb [signed-by={KEYRING}] http://archive.example/debian bookworm main
deb http://archive.example/debian bookworm-updates main
deb http://backports.example/debian bookworm-backports main
"""
    )
    assert archive_mirrors(sources, "bookworm") == [
        "http://archive.example/debian",
        "http://backports.example/debian",
    ]


@pytest.mark.parametrize("suite", ["stable", "testing", "sid", "bookworm-proposed-updates"])
def test_mirrors_know_debians_suites(suite: str) -> None:
    sources = parse_one_line(f"deb http://archive.example/debian {suite} main")
    assert archive_mirrors(sources, "bookworm") == ["http://archive.example/debian"]


def test_mirror_lists_are_passed_on_to_apt() -> None:
    sources = parse_deb822(
        "Types: deb\nURIs: mirror+file:/etc/apt/mirrors/debian.list\n"
        "Suites: trixie trixie-updates\nComponents: main\n"
    )
    assert archive_mirrors(sources, "trixie") == ["mirror+file:/etc/apt/mirrors/debian.list"]


def test_only_a_cdrom_is_no_mirror_and_the_error_says_what_was_seen() -> None:
    sources = parse_one_line("deb cdrom:[Debian 12]/ bookworm main")
    with pytest.raises(NoMirrorError, match=r"seen: cdrom:\[Debian 12\]/.*sources\.list\.d"):
        archive_mirrors(sources, "bookworm")


def test_another_release_is_no_mirror() -> None:
    with pytest.raises(NoMirrorError, match="component main of trixie; seen: none"):
        archive_mirrors(parse_one_line("deb http://a.example/ubuntu noble main"), "trixie")
