from pathlib import Path

import pytest

from tools.plumb.deps import policy
from tools.plumb.errors import PlumbError

ENTRY = '[[dynamic]]\nfile = "a.py"\nmodules = ["b"]\nreason = "{reason}"\n'


def test_the_repositorys_own_policy_is_one() -> None:
    found = policy.parse((Path(__file__).parent / "policy.toml").read_text())

    assert found.labels == ("//tools/pip:{name}",)
    assert all(entry.reason for entry in found.absent)


def test_an_entry_is_found_by_its_file() -> None:
    found = policy.parse(ENTRY.format(reason="a registry"))

    entry = found.modules_of("a.py")
    assert entry is not None
    assert entry.modules == ["b"]
    assert found.modules_of("b.py") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ENTRY.format(reason=" "), r"\[\[dynamic\]\] has reason = ' '; write some words"),
        ('[[dynamic]]\nfile = "a.py"\n', "cannot be read"),
        ('[[dynamic]]\nfile = "a.py"\nmodules = "b"\nreason = "x"\n', "write a list"),
        ('[[absent]]\ntarget = 3\nname = "b"\nreason = "x"\n', "has target = 3"),
        ("[packages", "cannot be read"),
        (f"x = {'9' * 5000}", "cannot be read"),
        (f"x = {'[' * 5000}{']' * 5000}", "cannot be read"),
        ("packages = 3", "cannot be read"),
        ("[[absnt]]", "unknown table 'absnt'"),
    ],
)
def test_a_wrong_entry_is_refused(text: str, said: str) -> None:
    with pytest.raises(PlumbError, match=said):
        policy.parse(text)
