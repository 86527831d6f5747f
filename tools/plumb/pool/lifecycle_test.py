import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pool import home as homes
from tools.plumb.pool import lifecycle
from tools.plumb.pool.config import PoolConfig, Server
from tools.plumb.pool.home import Home


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def quiet(text: str) -> None:
    pass


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_a_port_that_another_has_is_named(tmp_path: Path, taken: int, offset: int) -> None:
    config = PoolConfig(Server(port=taken - offset), ())

    with pytest.raises(PlumbError, match=r"port \d+ of 127\.0\.0\.1 cannot be had"):
        lifecycle.up(Home(tmp_path), config, quiet)


def test_security_without_keys_says_how_to_make_them(tmp_path: Path) -> None:
    config = PoolConfig(Server(security="tls"), ())

    with pytest.raises(PlumbError, match=r"needs authority\.crt, .* `plumb pool keys HOST`"):
        lifecycle.up(Home(tmp_path), config, quiet)


def test_an_unknown_user_is_a_mistake_of_the_file_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    with pytest.raises(PlumbError, match=r"\[server\] has user = 'no-such-user'") as raised:
        lifecycle.up(Home(tmp_path), PoolConfig(Server(user="no-such-user"), ()), quiet)

    assert raised.value.code is ExitCode.USAGE
    assert [*tmp_path.iterdir()] == []


def test_a_second_pool_of_one_home_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)

    with homes.held(home), pytest.raises(PlumbError, match="a pool is up in"):
        lifecycle.up(home, PoolConfig(Server(), ()), quiet)


def test_where_none_is_up_none_ends(tmp_path: Path) -> None:
    assert not lifecycle.down(Home(tmp_path))


def test_a_tokens_name_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(PlumbError, match="wanted letters, digits"):
        lifecycle.make_keys(Home(tmp_path), [], "../alice", "plumbline", 1)
