"""gpt-oss's kind of model in MXFP4 on two ranks: accuracy."""

from testing.e2e.smokes.gpt_oss import MXFP4


def test_answers_of_two_ranks_are_right() -> None:
    MXFP4.run()
