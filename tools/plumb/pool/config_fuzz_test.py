"""Whatever pool.toml says, it is read in full or refused with its path and the wrong key."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pool import config
from tools.plumb.pool.config import PoolConfig
from tools.plumb.pool.engine import handed, parts
from tools.plumb.pool.home import Home

PROGRAMS = parts.Programs(Path("/buildbox"), Path("/postgres"), Path("/python"), ())
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers(-(10**20), 10**20) | st.floats()
VALUES = st.recursive(
    TEXTS | NUMBERS | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
# As often right as not, so that a pair of keys is tried and not the first wrong one alone.
SERVER = {
    "address": st.sampled_from(["127.0.0.1", "::1", "0.0.0.0", "10.0.0.1", "fe80::1%1", "x"]),
    "port": st.integers(0, 70_000),
    "security": st.sampled_from(["none", "tls", "jwt", "TLS"]),
    "audience": TEXTS,
    "user": st.sampled_from(["nobody", "no body", "x", ""]),
    "cache": st.from_regex(r"[0-9]{1,5}[KMGTP]?", fullmatch=True),
}
POOL = {
    "name": st.sampled_from(["cpu", "h100", "x", ""]),
    "hosts": st.integers(-1, 10**5),
    "slots": st.integers(-1, 60),
    "start_seconds": NUMBERS,
    "saved_seconds": NUMBERS,
    "gpus": st.lists(st.integers(-1, 9), max_size=4),
    "slots_per_gpu": st.integers(-1, 80),
    "simulated": st.booleans(),
    "env": st.dictionaries(TEXTS | st.just("A"), TEXTS, max_size=2),
}


def tables(keys: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the keys with values of their kind, and perhaps one with any value."""
    right = st.fixed_dictionaries({}, optional=keys)
    wrong = st.dictionaries(st.sampled_from([*keys]) | TEXTS, VALUES, max_size=1)
    return st.builds(lambda one, other: one | other, right, st.just({}) | wrong)


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{toml(key)} = {toml(one)}' for key, one in value.items())}}}"
    return repr(value)


def written(table: dict[str, Any]) -> str:
    return "".join(f"{toml(key)} = {toml(value)}\n" for key, value in table.items())


def check(text: str, keys: set[str]) -> PoolConfig | None:
    """What was read of a file; None if it was refused as a user's mistake that names a key."""
    with TemporaryDirectory() as name:
        file = Path(name) / "pool.toml"
        file.write_text(text, encoding="utf-8")
        try:
            return config.read(file, ("cpu", "h100"))
        except PlumbError as error:
            assert error.code is ExitCode.USAGE
            assert str(error).startswith(f"{file}: ")
            assert any(key in str(error) for key in keys), error
    return None


@settings(deadline=None, max_examples=400)
@given(tables(SERVER))
def test_a_server_is_read_or_the_key_is_named(server: dict[str, Any]) -> None:
    text = f'[server]\n{written(server)}[[pool]]\nname = "cpu"\n'

    found = check(text, {*server})

    if found is not None:
        said = {name: getattr(found.server, name) for name in server}
        assert said == server


@settings(deadline=None, max_examples=400)
@given(tables(POOL))
def test_a_pool_is_read_or_the_key_is_named_and_its_workers_can_be_started(
    pool: dict[str, Any],
) -> None:
    found = check(f"[[pool]]\n{written({'name': 'cpu'} | pool)}", {"name", "no pool", *pool})

    if found is None:
        return
    with TemporaryDirectory() as name:
        home = Home(Path(name))
        home.plan.write_bytes(handed.written(found, PROGRAMS))
        assert handed.read(home) == (found, PROGRAMS)
    workers = [part for part in parts.of(home, found, PROGRAMS) if part.slot is not None]
    assert len({worker.name for worker in workers}) == len(workers) == len(found.slots) > 0
    for worker in workers:
        words = [*worker.command, *worker.environment, *worker.environment.values()]
        assert not any("\0" in word for word in words)
        assert worker.environment["PLUMBLINE_SLOT"] == worker.name
