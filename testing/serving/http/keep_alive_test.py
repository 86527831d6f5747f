"""A connection that idles is closed by its client, and not by the server at the same time."""

import time
from http.client import HTTPConnection
from pathlib import Path

import httpx
import openai

from layers.serving.api.server import KEEP_ALIVE_SECONDS
from testing.serving.model_folder import LOADER, write_folder
from testing.serving.server import running_server

# uvicorn's own, which is the clients' as well: a request may cross the server's end of its
# connection on the way.
ITS_DEFAULT = 5


def test_clients_close_theirs_long_before_the_server() -> None:
    for limits in (httpx.Limits(), openai.DEFAULT_CONNECTION_LIMITS):
        expiry = limits.keepalive_expiry
        assert expiry is not None and 2 * expiry < KEEP_ALIVE_SECONDS


def test_a_connection_is_there_behind_a_pause(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "known")
    with running_server(folder, "--loader", LOADER, "--torch-threads", "1") as server:
        url = httpx.URL(server.url)
        connection = HTTPConnection(url.host, url.port, timeout=30)
        for pause in (0, ITS_DEFAULT + 1):
            time.sleep(pause)
            connection.request("GET", "/health")
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read()
            # Else the next request would take a new one.
            connection.auto_open = 0
        connection.close()
