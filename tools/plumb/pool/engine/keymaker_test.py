import os
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jwt
import pytest
from cryptography import x509

from tools.plumb.errors import PlumbError
from tools.plumb.pool.engine import keymaker


def certificate(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def test_both_sides_are_signed_by_the_authority_for_the_names_asked_for(tmp_path: Path) -> None:
    keymaker.make(tmp_path, ["build.example", "192.0.2.7"], 30)

    authority, server = (
        certificate(tmp_path / "authority.crt"),
        certificate(tmp_path / "server.crt"),
    )
    server.verify_directly_issued_by(authority)
    certificate(tmp_path / "client.crt").verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "build.example" in names.get_values_for_type(x509.DNSName)
    addresses = [str(one) for one in names.get_values_for_type(x509.IPAddress)]
    assert addresses == ["127.0.0.1", "::1", "192.0.2.7"]
    assert (server.not_valid_after_utc - server.not_valid_before_utc).days == 30


def test_new_certificates_keep_the_authority_and_the_tokens(tmp_path: Path) -> None:
    keymaker.make(tmp_path, [], 1)
    kept = {name: (tmp_path / name).read_bytes() for name in ("authority.crt", "tokens.pub")}
    server = (tmp_path / "server.crt").read_bytes()

    keymaker.make(tmp_path, [], 1)

    assert {name: (tmp_path / name).read_bytes() for name in kept} == kept
    assert (tmp_path / "server.crt").read_bytes() != server


def shake(client: ssl.SSLObject, server: ssl.SSLObject, ways: list[ssl.MemoryBIO]) -> None:
    """Lets both sides speak in turn until neither has a word left."""
    to_client, from_client, to_server, from_server = ways
    for _ in range(4):
        for side, heard, spoken in (
            (client, from_client, to_server),
            (server, from_server, to_client),
        ):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
            spoken.write(heard.read())


def strict(purpose: ssl.Purpose, folder: Path, own: str) -> ssl.SSLContext:
    """As Python 3.13 checks by itself."""
    context = ssl.create_default_context(purpose, cafile=str(folder / "authority.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_cert_chain(folder / f"{own}.crt", folder / f"{own}.key")
    return context


@pytest.mark.parametrize("host", ["build.example", "192.0.2.7", "localhost"])
def test_both_sides_take_each_other_under_strict_verification(tmp_path: Path, host: str) -> None:
    keymaker.make(tmp_path, ["build.example", "192.0.2.7"], 1)
    ways = [ssl.MemoryBIO() for _ in range(4)]
    client = strict(ssl.Purpose.SERVER_AUTH, tmp_path, "client").wrap_bio(
        ways[0], ways[1], server_hostname=host
    )
    server = strict(ssl.Purpose.CLIENT_AUTH, tmp_path, "server").wrap_bio(
        ways[2], ways[3], server_side=True
    )

    shake(client, server, ways)

    for side, peer in ((client, "plumb pool server"), (server, "plumb pool client")):
        found = side.getpeercert()
        assert found is not None
        assert found["subject"] == ((("commonName", peer),),)


def test_an_authority_of_before_is_made_anew_and_said(tmp_path: Path) -> None:
    # As it was made once: without key identifiers and usage.
    key = keymaker._new_key()
    name = keymaker._name("plumb pool authority")
    now = datetime.now(UTC)
    old = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    keymaker._write_pair(tmp_path, "authority", key, old, key)

    assert "lacked extensions" in keymaker.make(tmp_path, [], 1)
    assert keymaker.make(tmp_path, [], 1) == ""

    certificate(tmp_path / "server.crt").verify_directly_issued_by(
        certificate(tmp_path / "authority.crt")
    )


def test_no_certificate_outlives_its_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(keymaker, "_AUTHORITY_DAYS", 3000)
        assert keymaker.make(tmp_path, [], 2999) == ""

    assert "ended before certificates of 3650 days" in keymaker.make(tmp_path, [], 3650)

    ends = {name: certificate(tmp_path / f"{name}.crt") for name in ("authority", "client")}
    assert ends["client"].not_valid_after_utc < ends["authority"].not_valid_after_utc


def test_an_authority_that_was_left_half_made_is_made_again(tmp_path: Path) -> None:
    keymaker.make(tmp_path, [], 1)
    key = (tmp_path / "authority.key").read_bytes()
    (tmp_path / "authority.crt").unlink()
    assert keymaker.make(tmp_path, [], 1) == ""

    (tmp_path / "authority.key").write_bytes(key)
    assert "was of another key" in keymaker.make(tmp_path, [], 1)


def test_what_is_no_authority_is_not_overwritten(tmp_path: Path) -> None:
    keymaker.make(tmp_path, [], 1)
    (tmp_path / "authority.key").write_text("mine")

    with pytest.raises(PlumbError, match="move both away"):
        keymaker.make(tmp_path, [], 1)

    assert (tmp_path / "authority.key").read_text() == "mine"


def test_a_token_is_for_its_user_its_audience_and_its_time(tmp_path: Path) -> None:
    keymaker.make(tmp_path, [], 1)

    written = keymaker.token(tmp_path, "alice", "plumbline", 2).read_text()

    text = written.removeprefix("Bearer ")
    public = (tmp_path / "tokens.pub").read_bytes()
    claims = jwt.decode(text, public, algorithms=["RS256"], audience="plumbline")
    assert claims["sub"] == "alice"
    assert claims["exp"] - claims["iat"] == 2 * 86_400
    with pytest.raises(jwt.InvalidAudienceError):
        jwt.decode(text, public, algorithms=["RS256"], audience="another")


def test_no_file_is_for_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        keymaker.make(tmp_path / "keys", [], 1)
        keymaker.token(tmp_path / "keys", "alice", "plumbline", 1)
    finally:
        os.umask(before)

    for file in (tmp_path / "keys", *(tmp_path / "keys").iterdir()):
        assert file.stat().st_mode & 0o077 == 0, file


def test_a_token_without_keys_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(PlumbError, match="make them with `plumb pool keys`"):
        keymaker.token(tmp_path, "alice", "plumbline", 1)
