"""gpt-oss 120B on four GPUs, its weights upcast to bf16."""

import unittest

from serving.figures import evaluate
from serving.launch import Server, launch_server


class TestGptOss120bBf16(unittest.TestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = launch_server(
            "openai/gpt-oss-120b",
            other_args=["--tp", "4", "--cuda-graph-max-bs", "200", "--quantization", "bf16"],
        )

    def test_reasoning(self) -> None:
        scores = {"low": 0.58}
        for effort, least in scores.items():
            score = evaluate(self.server, f"gpqa-{effort}", examples=198)
            self.assertGreaterEqual(score, least)

    def test_long_answers_end(self) -> None:
        self.assertGreater(evaluate(self.server, "aime", examples=30), 0.7)
