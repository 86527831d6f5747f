import pytest

from tools.plumb.deps.paths import read

PATH = "app/core/main_test.py"


def paths(source: str) -> list[str]:
    return [found.path for found in read(f"import os\nfrom pathlib import Path\n{source}\n", PATH)]


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("(Path(__file__).parent / 'x.txt').read_text()", "app/core/x.txt"),
        ("Path(__file__).with_name('x.txt').open()", "app/core/x.txt"),
        ("Path(__file__).resolve().parents[2] / 'data' / 'x.txt'", "data/x.txt"),
        ("Path(__file__).absolute().parent.parent.joinpath('a', 'x.txt')", "app/a/x.txt"),
        ("Path(__file__).parent / '../x.txt'", "app/x.txt"),
        ("open(os.path.join(os.path.dirname(__file__), 'x.txt'))", "app/core/x.txt"),
        ("HERE = Path(__file__).parent\ndef f():\n    return HERE / 'x.txt'", "app/core/x.txt"),
        ("def f():\n    root = Path(__file__).parents[2]\n    return root / 'x.txt'", "x.txt"),
        (
            "class A:\n"
            "    def __init__(self):\n        self.root = Path(__file__).parents[1]\n"
            "    def f(self):\n        return self.root / 'x.txt'",
            "app/x.txt",
        ),
        ("from importlib.resources import files\nfiles('app.data') / 'x.txt'", "app/data/x.txt"),
        ("Runfiles.Create().Rlocation('app/core/x.txt')", "app/core/x.txt"),
        ("Path(__file__).parent.glob('*.txt')", "app/core/*.txt"),
        ("Path(__file__).parent.rglob('*.txt')", "app/core/**/*.txt"),
        ("Path('app/x.txt').read_text()", "app/x.txt"),
        ("open('app/x.txt')", "app/x.txt"),
    ],
)
def test_a_path_in_literals_is_read(source: str, path: str) -> None:
    assert path in paths(source)


@pytest.mark.parametrize(
    "source",
    [
        "def f(tmp_path):\n    return tmp_path / 'x.txt'",
        "HERE = Path(__file__).parent\ndef f(HERE):\n    return HERE / 'x.txt'",
        "def f(name):\n    return Path(__file__).parent / name / 'x.txt'",
        "Path(__file__).parent / '../../../x.txt'",
        "Path('/etc/x.txt').read_text()",
        "open('x.txt')",
    ],
)
def test_a_path_that_nobody_knows_is_not_guessed(source: str) -> None:
    assert not [path for path in paths(source) if path.endswith("x.txt")]
