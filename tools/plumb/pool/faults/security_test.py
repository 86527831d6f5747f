"""A pool that others can reach lets in who shows what it asks for, and nobody else."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import jwt
import pytest
from buildgrid._protos.build.bazel.remote.execution.v2 import (
    remote_execution_pb2 as messages,
)
from buildgrid._protos.build.bazel.remote.execution.v2 import (
    remote_execution_pb2_grpc as services,
)

from tools.plumb.pool.engine import keymaker
from tools.plumb.pool.faults.real_pool import RealPool, real_pool

SECONDS = 30
EVERYWHERE, ONE_ADDRESS = "0.0.0.0", "127.0.0.2"
TOML = """
[server]
port = {port}
address = "{address}"
security = "{security}"

[[pool]]
name = "cpu"
env = {{NOTES = FOLDER}}
"""
BUILD = """
sh_test(name = "quick", size = "small", srcs = ["check.sh"], args = ["cpu"],
        exec_properties = {"test.Pool": "cpu"})
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool() as made:
        made.write(BUILD)
        yield made


@pytest.fixture(scope="module")
def folder(pool: RealPool) -> Path:
    refused = pool.plumb("up", "--config", str(pool.configure(text(pool, EVERYWHERE, "tls"))))
    assert refused.returncode == 2
    assert "needs authority.crt, server.crt, server.key, tokens.pub" in refused.stderr
    assert "plumb pool keys HOST" in refused.stderr
    made = pool.plumb("keys", "pool.example", ONE_ADDRESS)
    assert made.returncode == 0, made.stderr
    return pool.home.keys


def text(pool: RealPool, address: str, security: str) -> str:
    return TOML.format(port=pool.port, address=address, security=security)


def channel(
    pool: RealPool, folder: Path | None, client: bool = False, host: str = "127.0.0.1"
) -> grpc.Channel:
    address = f"{host}:{pool.port}"
    if folder is None:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(
        address,
        grpc.ssl_channel_credentials(
            (folder / "authority.crt").read_bytes(),
            (folder / "client.key").read_bytes() if client else None,
            (folder / "client.crt").read_bytes() if client else None,
        ),
    )


def answer(reached: grpc.Channel, token: str | None = None) -> grpc.StatusCode:
    """What a client is told that asks which files are missing."""
    stub = services.ContentAddressableStorageStub(reached)
    metadata = () if token is None else (("authorization", f"Bearer {token}"),)
    try:
        stub.FindMissingBlobs(
            messages.FindMissingBlobsRequest(), timeout=SECONDS, metadata=metadata
        )
    except grpc.RpcError as error:
        return error.code()
    finally:
        reached.close()
    return grpc.StatusCode.OK


def test_certificates_let_in_and_their_lack_keeps_out(
    pool: RealPool, folder: Path, tmp_path: Path
) -> None:
    pool.up(text(pool, EVERYWHERE, "tls"))
    try:
        assert answer(channel(pool, folder, client=True)) is grpc.StatusCode.OK
        assert answer(channel(pool, folder)) is grpc.StatusCode.UNAVAILABLE
        assert answer(channel(pool, None)) is grpc.StatusCode.UNAVAILABLE
        # Somebody else's authority.
        keymaker.make(tmp_path, [], 1)
        stranger = grpc.secure_channel(
            f"127.0.0.1:{pool.port}",
            grpc.ssl_channel_credentials(
                (folder / "authority.crt").read_bytes(),
                (tmp_path / "client.key").read_bytes(),
                (tmp_path / "client.crt").read_bytes(),
            ),
        )
        assert answer(stranger) is grpc.StatusCode.UNAVAILABLE
        done = pool.plumb("run", "--", "test", "//:quick")
        assert done.returncode == 0, done.stderr
    finally:
        pool.plumb("down")


def test_a_token_lets_in_and_a_wrong_one_keeps_out(
    pool: RealPool, folder: Path, tmp_path: Path
) -> None:
    pool.up(text(pool, ONE_ADDRESS, "jwt"))
    try:
        done = pool.plumb("keys", "--token-for", "alice", "--days", "1")
        assert done.returncode == 0, done.stderr
        good = (folder / "alice.token").read_text().removeprefix("Bearer ")
        wrong = pool.plumb("keys", "--token-for", "mallory", "--audience", "another")
        assert wrong.returncode == 0, wrong.stderr
        other = (folder / "mallory.token").read_text().removeprefix("Bearer ")
        claims = jwt.decode(good, options={"verify_signature": False})
        secret = (folder / "tokens.key").read_bytes()
        expired = jwt.encode({**claims, "exp": claims["iat"] - 60}, secret, algorithm="RS256")
        endless = {name: value for name, value in claims.items() if name != "exp"}
        keymaker.make(tmp_path, [], 1)
        forged = jwt.encode(claims, (tmp_path / "tokens.key").read_bytes(), algorithm="RS256")
        plain = jwt.encode(claims, "", algorithm="none")

        assert answer(channel(pool, folder, host=ONE_ADDRESS), good) is grpc.StatusCode.OK
        refused = grpc.StatusCode.UNAUTHENTICATED
        assert answer(channel(pool, folder, host=ONE_ADDRESS)) is refused
        assert answer(channel(pool, folder, host=ONE_ADDRESS), other) is refused
        assert answer(channel(pool, folder, host=ONE_ADDRESS), expired) is refused
        endless_token = jwt.encode(endless, secret, algorithm="RS256")
        assert answer(channel(pool, folder, host=ONE_ADDRESS), endless_token) is refused
        assert answer(channel(pool, folder, host=ONE_ADDRESS), forged) is refused
        assert answer(channel(pool, folder, host=ONE_ADDRESS), plain) is refused
        (folder / "mallory.token").unlink()
        done = pool.plumb("run", "--", "test", "-c", "opt", "//:quick")
        assert done.returncode == 0, done.stderr
        # A token is for nobody to read on the way.
        assert answer(channel(pool, None, host=ONE_ADDRESS), good) is grpc.StatusCode.UNAVAILABLE
    finally:
        pool.plumb("down")


def test_keys_are_their_owners_alone(folder: Path) -> None:
    assert folder.stat().st_mode & 0o077 == 0
    for file in folder.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
