"""Writes the trust store with which Bazel's Java checks HTTPS servers.

The format is Java's own JKS (`sun.security.provider.JavaKeyStore`), which holds bare certificates
and is written here directly: the JRE's keytool takes half a second for each certificate.
"""

import base64
import hashlib
import os
import re
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

# Java opens a trust store without a password, so this one guards nothing: it is only hashed in.
_PASSWORD = "changeit"
_MAGIC, _VERSION, _CERTIFICATE_ENTRY = 0xFEEDFEED, 2, 2
_SYSTEM_BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/cert.pem"),
)


def find_bundle(
    environment: Mapping[str, str] = os.environ, bundles: Iterable[Path] = _SYSTEM_BUNDLES
) -> Path | None:
    """The file of certificates that this machine trusts: `SSL_CERT_FILE`, else the system's."""
    named = environment.get("SSL_CERT_FILE")
    for path in [Path(named)] if named else []:
        if path.is_file():
            return path
    return next((path for path in bundles if path.is_file()), None)


def certificates(pem: str) -> list[bytes]:
    """The DER bytes of every certificate in `pem`, in order, each once."""
    bodies = re.findall(
        r"-----BEGIN (?:TRUSTED )?CERTIFICATE-----(.*?)-----END", pem, flags=re.DOTALL
    )
    return list(dict.fromkeys(base64.b64decode("".join(body.split())) for body in bodies))


def _utf(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def keystore(ders: Iterable[bytes]) -> bytes:
    """A JKS file in which each of `ders` is a trusted certificate."""
    entries = list(ders)
    body = struct.pack(">III", _MAGIC, _VERSION, len(entries))
    for number, der in enumerate(entries):
        body += struct.pack(">I", _CERTIFICATE_ENTRY) + _utf(f"ca-{number}")
        body += struct.pack(">Q", 0) + _utf("X.509") + struct.pack(">I", len(der)) + der
    salted = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    return body + hashlib.sha1(salted, usedforsecurity=False).digest()


def write_trust_store(target: Path, fallback: Path) -> int:
    """Writes `target` from the machine's certificates, or from `fallback` if it has none.

    Args:
        target: the file to write; replaced whole.
        fallback: a file of certificates in PEM.

    Returns:
        How many certificates are trusted.
    """
    bundle = find_bundle() or fallback
    ders = certificates(bundle.read_text(encoding="utf-8", errors="replace"))
    target.unlink(missing_ok=True)
    target.write_bytes(keystore(ders))
    return len(ders)
