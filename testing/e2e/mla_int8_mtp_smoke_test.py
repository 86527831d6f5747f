"""MLA, experts and MTP in int8: accuracy, and how many drafts are accepted."""

from testing.e2e.smokes.mla_int8_mtp import SMOKE


def test_answers_are_right_and_drafts_accepted() -> None:
    SMOKE.run()
