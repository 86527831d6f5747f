import pytest

from tools.lint import lint


@pytest.mark.parametrize("check", sorted(lint.CHECKS))
def test_the_repository_passes(check: str, capfd: pytest.CaptureFixture[str]) -> None:
    fine = lint.CHECKS[check](lint.workspace(), False)

    out, err = capfd.readouterr()
    assert fine, f"{out}{err}\nMend it: tools/bazel run //tools/lint -- --fix"
