import hashlib
import struct
from pathlib import Path

import pytest

from tools.bootstrap import trust

PEM = """\
# Some CA
-----BEGIN CERTIFICATE-----
AQIDBA==
-----END CERTIFICATE-----
-----BEGIN TRUSTED CERTIFICATE-----
BQYH
CAk=
-----END TRUSTED CERTIFICATE-----
-----BEGIN CERTIFICATE-----
AQIDBA==
-----END CERTIFICATE-----
"""
FIRST, SECOND = bytes([1, 2, 3, 4]), bytes([5, 6, 7, 8, 9])


def read_keystore(data: bytes) -> dict[str, bytes]:
    """Alias to certificate, read as Java's JavaKeyStore.engineLoad reads a JKS file."""
    magic, version, count = struct.unpack_from(">III", data)
    assert (magic, version) == (0xFEEDFEED, 2)
    at, entries = 12, {}

    def text() -> str:
        nonlocal at
        (length,) = struct.unpack_from(">H", data, at)
        at += 2 + length
        return data[at - length : at].decode()

    for _ in range(count):
        (tag,) = struct.unpack_from(">I", data, at)
        at += 4
        alias = text()
        at += 8
        assert (tag, text()) == (2, "X.509")
        (length,) = struct.unpack_from(">I", data, at)
        entries[alias] = data[at + 4 : at + 4 + length]
        at += 4 + length
    seal = hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + data[:at])
    assert data[at:] == seal.digest()
    return entries


def test_each_certificate_is_read_once() -> None:
    assert trust.certificates(PEM) == [FIRST, SECOND]


def test_text_without_certificates_has_none() -> None:
    assert trust.certificates("-----BEGIN PRIVATE KEY-----\nAQID\n-----END PRIVATE KEY-----") == []


def test_the_keystore_is_one_that_java_reads() -> None:
    assert read_keystore(trust.keystore([FIRST, SECOND])) == {"ca-0": FIRST, "ca-1": SECOND}
    assert read_keystore(trust.keystore([])) == {}


def test_the_named_bundle_goes_before_the_systems(tmp_path: Path) -> None:
    named, system = tmp_path / "named.pem", tmp_path / "system.pem"
    named.write_text("")
    system.write_text("")
    assert trust.find_bundle({"SSL_CERT_FILE": str(named)}, [system]) == named
    assert trust.find_bundle({"SSL_CERT_FILE": str(tmp_path / "absent")}, [system]) == system
    assert trust.find_bundle({}, [tmp_path / "absent", system]) == system
    assert trust.find_bundle({}, [tmp_path / "absent"]) is None


def test_a_machine_without_certificates_gets_pips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "find_bundle", lambda: None)
    (tmp_path / "pips.pem").write_text(PEM)
    target = tmp_path / "cacerts"
    target.write_text("what Debian's package put there")
    assert trust.write_trust_store(target, tmp_path / "pips.pem") == 2
    assert set(read_keystore(target.read_bytes()).values()) == {FIRST, SECOND}
