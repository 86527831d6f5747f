"""`python -m tools.plumb.pool.engine.keymaker JSON`: makes the pool's secrets.

A process of its own, by the packages of `:packages`, since plumb itself brings none for this. Which
files there are, tools/plumb/pool/keys.py says.
"""

from __future__ import annotations

import ipaddress
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tools.plumb.errors import PlumbError

# Of the authority, twice what a certificate can be asked to hold.
_AUTHORITY_DAYS = 7300


def make(folder: Path, names: Sequence[str], days: int) -> str:
    """Makes authority, certificates and the tokens' keys; an authority of use is kept.

    names: host names and IP addresses by which clients reach the server. days: how long the
    certificates hold. Returns why an authority that was there was made anew; empty if none was.
    Raises PlumbError where it cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    authority = _Authority(folder, days)
    authority.sign("server", ("localhost", "127.0.0.1", "::1", *names), days, of_server=True)
    authority.sign("client", (), days, of_server=False)
    if not (folder / "tokens.key").exists():
        _make_token_keys(folder)
    return authority.fault


def token(folder: Path, user: str, audience: str, days: float) -> Path:
    """Writes a token for `user` that ends after `days`; returns its file.

    Raises PlumbError where no keys were made.
    """
    import jwt

    secret = folder / "tokens.key"
    if not secret.is_file():
        raise PlumbError(f"no keys in {folder}: make them with `plumb pool keys`.")
    now = datetime.now(UTC)
    claims = {"sub": user, "aud": audience, "iat": now, "exp": now + timedelta(days=days)}
    text = jwt.encode(claims, secret.read_bytes(), algorithm="RS256")
    file = folder / f"{user}.token"
    _write(file, f"Bearer {text}".encode())
    return file


def main() -> int:
    """Does what one argument says in JSON: {"make": […]} or {"token": […]}, as their arguments.

    Prints what `make` returns.
    """
    said = json.loads(sys.argv[1])
    try:
        if "make" in said:
            folder, names, days = said["make"]
            print(make(Path(folder), names, days), end="")
        else:
            folder, user, audience, days = said["token"]
            token(Path(folder), user, audience, days)
    except PlumbError as error:
        print(error, file=sys.stderr)
        return int(error.code)
    return 0


class _Authority:
    """Signs certificates with the key in a folder, which it makes if there is none of use.

    fault: what was wrong with the one that was there.
    """

    def __init__(self, folder: Path, days: int) -> None:
        self.folder = folder
        there = (folder / "authority.key").exists() and (folder / "authority.crt").exists()
        self.fault = _fault(*_read_authority(folder), days) if there else ""
        if self.fault or not there:
            self._make()
        self.key, self.certificate = _read_authority(folder)

    def _make(self) -> None:
        from cryptography import x509

        key = _new_key()
        name = _name("plumb pool authority")
        builder = _builder(name, name, key.public_key(), key.public_key(), _AUTHORITY_DAYS)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        ).add_extension(_usage("key_cert_sign"), critical=True)
        _write_pair(self.folder, "authority", key, builder, key)

    def sign(self, name: str, reached_by: Sequence[str], days: int, *, of_server: bool) -> None:
        """Writes NAME.crt and NAME.key, anew each time."""
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = _new_key()
        builder = _builder(
            _name(f"plumb pool {name}"),
            self.certificate.subject,
            key.public_key(),
            self.key.public_key(),
            days,
        )
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        ).add_extension(_usage("digital_signature"), critical=True)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if of_server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if reached_by:
            names = [_general_name(text) for text in dict.fromkeys(reached_by)]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        _write_pair(self.folder, name, key, builder, self.key)


def _read_authority(folder: Path) -> tuple[Any, Any]:
    """Its key and its certificate. Raises PlumbError if they are not what we write."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key((folder / "authority.key").read_bytes(), None)
        return key, x509.load_pem_x509_certificate((folder / "authority.crt").read_bytes())
    except (TypeError, ValueError) as error:
        raise PlumbError(
            f"{folder}/authority.key and authority.crt are no key and certificate of ours "
            f"({error}): move both away, and `plumb pool keys` makes new ones."
        ) from error


def _fault(key: Any, certificate: Any, days: int) -> str:
    """Why an authority cannot sign for `days`; empty if it can."""
    from cryptography import x509

    if key.public_key() != certificate.public_key():
        return "authority.crt was of another key than authority.key"
    for kind in (x509.SubjectKeyIdentifier, x509.KeyUsage):
        try:
            certificate.extensions.get_extension_for_class(kind)
        except x509.ExtensionNotFound:
            return "the former lacked extensions that Python 3.13 and others ask for"
    if certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=days):
        return f"the former would have ended before certificates of {days} days"
    return ""


def _usage(wanted: str) -> Any:
    from cryptography import x509

    names = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: name == wanted for name in names})


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(text: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _builder(subject: Any, issuer: Any, public_key: Any, issuers_key: Any, days: int) -> Any:
    """A certificate of `public_key` for `days`, with the identifiers that RFC 5280 asks for."""
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        # Clocks differ.
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuers_key), critical=False
        )
    )


def _write_pair(folder: Path, name: str, key: Any, builder: Any, signer: Any) -> None:
    from cryptography.hazmat.primitives import hashes, serialization

    certificate = builder.sign(signer, hashes.SHA256())
    _write(folder / f"{name}.key", _pem(key))
    _write(folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    found: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        # The form that Bazel reads.
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return found


def _make_token_keys(folder: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write(folder / "tokens.key", _pem(key))
    _write(folder / "tokens.pub", public)


def _write(file: Path, content: bytes) -> None:
    fresh = file.with_name(f"{file.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    fresh.replace(file)


if __name__ == "__main__":
    sys.exit(main())
