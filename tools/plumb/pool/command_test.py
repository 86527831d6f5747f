from pathlib import Path

import pytest

from tools.plumb.errors import PlumbError
from tools.plumb.pool import command
from tools.plumb.pool.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_where_no_pool_has_been_its_logs_say_how_to_start_one(home: Home) -> None:
    with pytest.raises(PlumbError, match=r"no pool has been up in .* yet: `plumb pool up`"):
        command._show_log(home, "supervisor", 40, False)


def test_the_last_lines_of_a_part_are_shown_and_another_parts_name_is_refused(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    home.logs.mkdir()
    (home.logs / "files.log").write_text("one\ntwo\nthree\n")

    command._show_log(home, "files", 2, False)

    assert capsys.readouterr().out == "two\nthree\n"
    with pytest.raises(PlumbError, match=r"no part '../logs/files' has said .*; there are files"):
        command._show_log(home, "../logs/files", 2, False)
