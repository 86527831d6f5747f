from pathlib import Path

import pytest

from tools.plumb.errors import PlumbError
from tools.plumb.pool import labels


def write(workspace: Path, text: str) -> None:
    (workspace / "testing").mkdir()
    (workspace / labels.PATH).write_text(text)


def test_the_pools_are_those_of_the_file_the_cpus_first(tmp_path: Path) -> None:
    write(
        tmp_path,
        '"""Words."""\nPOOLS = {\n    "b200": struct(arch = "sm100", gpu = True),\n'
        '    "cpu": struct(arch = "cpu", gpu = False),\n}\nOTHER = [1]\n',
    )

    assert list(labels.declared(tmp_path).items()) == [("cpu", "cpu"), ("b200", "sm100")]


def test_a_workspace_without_the_file_declares_none(tmp_path: Path) -> None:
    assert labels.declared(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("POOLS = {", "was never closed"),
        ("X = {}", "it assigns no dict to POOLS"),
        ('POOLS = {"a": struct(gpu = True)}', "line 1 holds no struct with an arch"),
    ],
)
def test_a_file_of_another_shape_is_named(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path, text)

    with pytest.raises(PlumbError, match=said):
        labels.declared(tmp_path)


def test_this_repositorys_own_file_is_read() -> None:
    here = Path(__file__).resolve().parents[3]
    found = labels.declared(here if (here / labels.PATH).exists() else Path.cwd())

    assert next(iter(found)) == "cpu"
    assert found["h100"] == "sm90"
