"""Multi-token prediction of a latent-attention model with the flashmla backend."""

import unittest

from serving.figures import accept_length, evaluate
from serving.launch import Server, launch_server

MODEL = "deepseek-v3-cut"
DRAFT = "deepseek-v3-cut-draft"


class TestFlashMlaMtp(unittest.TestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = launch_server(
            MODEL,
            other_args=[
                "--attention-backend",
                "flashmla",
                "--speculative-algorithm",
                "EAGLE",
                "--speculative-draft-model-path",
                DRAFT,
                "--speculative-num-steps",
                "3",
            ],
        )

    def test_gsm8k(self) -> None:
        self.assertGreater(evaluate(self.server, "gsm8k", examples=200), 0.60)

    def test_accept_length(self) -> None:
        self.assertGreater(accept_length(self.server, prompts=16), 2.4)
