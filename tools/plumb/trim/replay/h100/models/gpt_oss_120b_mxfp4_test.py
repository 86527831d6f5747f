"""gpt-oss 120B on four GPUs, as its checkpoint is."""

import unittest

from serving.figures import evaluate
from serving.launch import Server, launch_server


class TestGptOss120bMxfp4(unittest.TestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = launch_server(
            "openai/gpt-oss-120b",
            other_args=["--tp", "4", "--cuda-graph-max-bs", "200"],
        )

    def test_reasoning(self) -> None:
        scores = {"low": 0.50}
        for effort, least in scores.items():
            score = evaluate(self.server, f"gpqa-{effort}", examples=198)
            self.assertGreaterEqual(score, least)
