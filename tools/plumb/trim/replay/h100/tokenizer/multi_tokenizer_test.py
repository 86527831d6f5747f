"""One server with several tokenizer workers, asked by many clients at once."""

import unittest

from serving.figures import evaluate, time_to_first_token
from serving.launch import Server, launch_server

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


class TestMultiTokenizer(unittest.TestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        # The flags in another order than its twin's.
        cls.server = launch_server(
            MODEL, other_args=["--mem-fraction-static", "0.7", "--tokenizer-worker-num", "8"]
        )

    def test_mmlu(self) -> None:
        self.assertGreaterEqual(evaluate(self.server, "mmlu", examples=64), 0.65)

    def test_first_token_comes_in_time(self) -> None:
        self.assertLess(time_to_first_token(self.server, clients=100), 11)


if __name__ == "__main__":
    unittest.main()
