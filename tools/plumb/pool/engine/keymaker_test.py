import os
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
