import os
from pathlib import Path

import pytest

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pool.engine import accounts
from tools.plumb.pool.engine.accounts import Account, Accounts


def test_the_folder_that_keeps_a_user_out_is_found(tmp_path: Path) -> None:
    me = Account("me", os.getuid(), os.getgid())
    stranger = Account("stranger", os.getuid() + 1, os.getgid() + 1)
    closed = tmp_path / "closed"
    (closed / "inside").mkdir(parents=True)
    closed.chmod(0o700)

    assert accounts.closed_folder(closed / "inside", me) != closed
    found = accounts.closed_folder(closed / "inside", stranger)
    # A folder further up may be closed, too, such as that of all tests.
    assert found is not None
    assert (closed / "inside").is_relative_to(found)
    assert accounts.closed_folder(Path("/usr/bin"), stranger) is None


def test_who_is_not_root_changes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert accounts.choose("nobody") == Accounts()


def test_roots_tests_run_as_neither_root_nor_the_keeper_of_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    chosen = accounts.choose("nobody")

    assert chosen.worker is not None
    assert chosen.service is not None
    assert len({0, chosen.worker.uid, chosen.service.uid}) == 3
    with pytest.raises(PlumbError, match="a test could do anything here"):
        accounts.choose("root")
    with pytest.raises(PlumbError, match="a test could write the pool's own files"):
        accounts.choose(chosen.service.name)
    unknown = r"\[server\] has user = 'no-such-user', whom this machine does not know: name another"
    with pytest.raises(PlumbError, match=unknown) as raised:
        accounts.choose("no-such-user")
    assert raised.value.code is ExitCode.USAGE


def test_a_machine_without_the_user_of_the_pools_own_parts_is_no_mistake_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(accounts, "_SERVICE", "no-such-user")

    with pytest.raises(PlumbError, match="the pool's own parts run as 'no-such-user'") as raised:
        accounts.choose("nobody")

    assert raised.value.code is ExitCode.ENVIRONMENT
