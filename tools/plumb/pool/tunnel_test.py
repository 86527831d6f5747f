import gc
import logging
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tools.plumb.pool.engine import keymaker
from tools.plumb.pool.tunnel import tunnel


@contextmanager
def echoing(folder: Path) -> Iterator[int]:
    """The port of a server that asks for a client's certificate and says what it hears."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.load_verify_locations(folder / "authority.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            # Until the server is closed.
            with suppress(OSError):
                while True:
                    echo(server.accept()[0], context)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def echo(plain: socket.socket, context: ssl.SSLContext) -> None:
    """Serves one client to its end."""
    far = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
    with far, suppress(ConnectionError):
        try:
            far.do_handshake()
            while heard := far.recv(100):
                far.sendall(heard)
        except ssl.SSLError:
            # Closed with words unread, it would take its refusal back.
            while os.read(far.fileno(), 100):
                pass


def said(port: int, words: bytes) -> bytes:
    """What comes back through the tunnel; nothing where it is closed."""
    with socket.create_connection(("127.0.0.1", port)) as near:
        near.sendall(words)
        try:
            return near.recv(100)
        except ConnectionError:
            return b""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keys")
    keymaker.make(made, [], 1)
    return made


def pair(folder: Path) -> tuple[Path, Path]:
    return folder / "client.crt", folder / "client.key"


def test_words_pass_both_ways(folder: Path) -> None:
    with (
        echoing(folder) as port,
        tunnel("127.0.0.1", port, folder / "authority.crt", pair(folder)) as made,
    ):
        assert said(made.port, b"hello") == b"hello"
        assert made.trouble == ""


def test_why_no_connection_is_made_is_kept_until_one_is(folder: Path, tmp_path: Path) -> None:
    keymaker.make(tmp_path, [], 1)

    with echoing(folder) as port:
        with tunnel("127.0.0.1", port, tmp_path / "authority.crt", pair(folder)) as made:
            assert said(made.port, b"hello") == b""
        assert "certificate verify failed" in made.trouble

        with tunnel("127.0.0.1", port, folder / "authority.crt", pair(tmp_path)) as made:
            assert said(made.port, b"hello") == b""
        assert "unknown ca" in made.trouble.lower()

        with tunnel("127.0.0.1", port, folder / "authority.crt", pair(folder)) as made:
            made.trouble = "before"
            assert said(made.port, b"hello") == b"hello"
            assert made.trouble == ""


def test_an_open_connection_ends_with_the_tunnel_and_in_silence(
    folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.WARNING), echoing(folder) as port:
        with tunnel("127.0.0.1", port, folder / "authority.crt", pair(folder)) as made:
            near = socket.create_connection(("127.0.0.1", made.port))
            near.sendall(b"hello")
            assert near.recv(100) == b"hello"
        # Its end, as no one reads there any longer.
        assert near.recv(100) == b""
        near.close()
        del made
        gc.collect()

    assert caplog.messages == []
    assert capfd.readouterr().err == ""
