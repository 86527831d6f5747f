import pytest

from tools.bootstrap.closure import (
    ASSUMED_INSTALLED,
    WANTED,
    Package,
    bazel_version,
    dpkg_status,
    parse_print_uris,
    require_major,
)
from tools.bootstrap.errors import MirrorError, SuiteMovedError

DIGEST = "ab" * 32
PRINTED = f"""\
Reading package lists...
'http://m.example/debian/pool/main/b/bazel/bazel-bootstrap_7.7.1+ds-8+b1_amd64.deb' \
bazel-bootstrap_7.7.1+ds-8+b1_amd64.deb 790064 SHA256:{DIGEST}
'http://m.example/debian/pool/main/n/netty/libnetty-java_4.1.48-16_all.deb' \
libnetty-java_1%3a4.1.48-16_all.deb 2864168 SHA256:{DIGEST}
"""


def test_print_uris_gives_name_version_size_and_digest() -> None:
    bazel, netty = parse_print_uris(PRINTED)
    assert bazel == Package(
        "http://m.example/debian/pool/main/b/bazel/bazel-bootstrap_7.7.1+ds-8+b1_amd64.deb",
        "bazel-bootstrap_7.7.1+ds-8+b1_amd64.deb",
        790064,
        DIGEST,
    )
    assert (bazel.name, bazel.version) == ("bazel-bootstrap", "7.7.1+ds-8+b1")
    assert (netty.name, netty.version, netty.size) == ("libnetty-java", "1:4.1.48-16", 2864168)


@pytest.mark.parametrize("digest", ["MD5Sum:" + "ab" * 16, "SHA1:" + "ab" * 20, "SHA256:abc"])
def test_a_package_that_cannot_be_checked_is_refused(digest: str) -> None:
    text = PRINTED.replace(f"SHA256:{DIGEST}", digest, 1)
    with pytest.raises(MirrorError, match=r"no SHA-256 for bazel-bootstrap_7\.7\.1"):
        parse_print_uris(text)


def test_bazels_version_is_upstreams() -> None:
    assert bazel_version(parse_print_uris(PRINTED)) == "7.7.1"


def test_a_suite_with_another_major_is_named_with_the_way_out() -> None:
    moved = parse_print_uris(PRINTED.replace("7.7.1", "8.5.0"))
    with pytest.raises(SuiteMovedError, match=r"Found Bazel 8\.5\.0 .*wanted 7\.x.*bazelisk"):
        bazel_version(moved)


def test_a_suite_without_bazel_is_an_error() -> None:
    without = [package for package in parse_print_uris(PRINTED) if package.name != WANTED[0]]
    with pytest.raises(SuiteMovedError, match="no package bazel-bootstrap"):
        bazel_version(without)


@pytest.mark.parametrize("text", ["bazel 7.7.1\n", "7.7.1+ds-8+b1", "1:7.7.1-2"[2:]])
def test_major_seven_passes(text: str) -> None:
    assert require_major(text, "here") == "7.7.1"


@pytest.mark.parametrize(
    "text", ["bazel 17.0.1", "bazel 4.2.3- (@non-git)", "bazel no_version", ""]
)
def test_any_other_answer_does_not(text: str) -> None:
    with pytest.raises(SuiteMovedError, match="from a test"):
        require_major(text, "from a test")


def test_the_status_file_declares_each_assumed_package_installed_for_any_architecture() -> None:
    stanzas = dpkg_status(["python3", "perl"]).strip().split("\n\n")
    assert [stanza.splitlines()[0] for stanza in stanzas] == ["Package: python3", "Package: perl"]
    for stanza in stanzas:
        # `python3:any`, as Python packages depend on it, is met by `allowed` only.
        assert "Status: install ok installed\n" in stanza
        assert "Multi-Arch: allowed\n" in stanza


def test_nothing_wanted_is_assumed() -> None:
    assert not set(WANTED) & set(ASSUMED_INSTALLED)
    assert len(set(ASSUMED_INSTALLED)) == len(ASSUMED_INSTALLED)
