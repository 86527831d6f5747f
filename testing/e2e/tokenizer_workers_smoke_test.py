"""Many tokenizers and detokenizers: accuracy, latencies, streamed text, whole characters."""

from testing.e2e.smokes.tokenizer_workers import SMOKE


def test_answers_are_right_whole_and_in_time() -> None:
    SMOKE.run()
