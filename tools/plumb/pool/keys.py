"""The pool's secrets: which files there are, and what Bazel is given of them.

Files in the folder of keys, which its owner alone can read:

- authority.crt, authority.key: signs the others; clients check the server by the former.
- server.crt, server.key: of the server, for the names that clients may use.
- client.crt, client.key: what a Bazel shows where security is "tls".
- tokens.key, tokens.pub: sign and check tokens; NAME.token: what a Bazel shows where it is "jwt".
"""

from __future__ import annotations

from pathlib import Path

OF_SERVER = ("authority.crt", "server.crt", "server.key", "tokens.pub")


def missing(folder: Path, security: str) -> list[str]:
    """Files without which a server of that security cannot start."""
    if security == "none":
        return []
    return [name for name in OF_SERVER if not (folder / name).is_file()]


def bazel_options(folder: Path, security: str) -> list[str]:
    """What Bazel needs to be let in, but for a token, which stands in a file of its own."""
    if security == "none":
        return []
    options = [f"--tls_certificate={folder / 'authority.crt'}"]
    if security == "tls":
        options += [
            f"--tls_client_certificate={folder / 'client.crt'}",
            f"--tls_client_key={folder / 'client.key'}",
        ]
    return options
