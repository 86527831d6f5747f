"""The bf16 twin of the MXFP4 smoke, the same weights unpacked: accuracy."""

from testing.e2e.smokes.gpt_oss import BF16


def test_answers_of_two_ranks_are_right() -> None:
    BF16.run()
