"""The seed with which a run of right layers is repeated."""

import pytest

from testing.strength.null_runs import SEED_VARIABLE, seeds


def test_fresh_seeds_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SEED_VARIABLE, raising=False)
    assert len(set(seeds(5))) == 5


def test_the_seed_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED_VARIABLE, "123")
    assert seeds(5) == [123]


@pytest.mark.parametrize("asked", ["-1", "1.5", "0x10", "seed", "²"])
def test_a_seed_that_is_none(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED_VARIABLE, asked)
    with pytest.raises(ValueError, match=f"PLUMBLINE_SEED is '{asked}', wanted a whole number"):
        seeds(5)
