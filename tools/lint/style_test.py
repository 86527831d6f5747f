import subprocess
from pathlib import Path

import pytest

from tools.lint import lint


@pytest.mark.parametrize("check", sorted(lint.CHECKS))
def test_the_repository_passes(check: str, capfd: pytest.CaptureFixture[str]) -> None:
    fine = lint.CHECKS[check](lint.workspace(), False)

    out, err = capfd.readouterr()
    assert fine, f"{out}{err}\nMend it: tools/bazel run //tools/lint -- --fix"


def test_the_hook_is_installed_once_and_a_users_own_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    hook = tmp_path / ".git/hooks/pre-commit"

    assert lint.install_hook(tmp_path) == 0
    assert lint.install_hook(tmp_path) == 0
    assert hook.stat().st_mode & 0o111
    assert "//tools/lint" in hook.read_text()

    hook.write_text("#!/bin/sh\necho mine\n")
    assert lint.install_hook(tmp_path) == 1
    assert hook.read_text() == "#!/bin/sh\necho mine\n"
    assert "exists already" in capsys.readouterr().err


def test_a_link_that_leads_nowhere_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "there.md").write_text("[a](there.md#part) [b](https://example.org/x) [c](#part)\n")
    assert lint.links(tmp_path, False)

    (tmp_path / "lost.md").write_text("![d](gone.svg)\n")
    assert not lint.links(tmp_path, False)
    assert capsys.readouterr().out == "lost.md: the link to gone.svg leads nowhere\n"
