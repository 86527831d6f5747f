"""DeepSeek-V3 checkpoints of int8, served with multi-token prediction."""

import unittest

from serving.figures import accept_length, evaluate
from serving.launch import Server, launch_server
from serving.platform import is_in_ci

CHANNEL = "deepseek-v3-cut-channel-int8"
BLOCK = "deepseek-v3-cut-block-int8"
DRAFT = "deepseek-v3-cut-channel-int8-draft"


class TestChannelInt8Mtp(unittest.TestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = launch_server(
            CHANNEL,
            other_args=[
                "--speculative-algorithm",
                "EAGLE",
                "--speculative-draft-model-path",
                DRAFT,
                "--quantization",
                "w8a8_int8",
            ],
        )

    def test_gsm8k(self) -> None:
        self.assertGreater(evaluate(self.server, "gsm8k", examples=200), 0.60)

    def test_accept_length(self) -> None:
        self.assertGreater(accept_length(self.server, prompts=16), 2.4)


@unittest.skipIf(is_in_ci(), "too slow for every commit")
class TestBlockInt8(unittest.TestCase):
    def test_gsm8k(self) -> None:
        with launch_server(BLOCK, other_args=["--quantization", "blockwise_int8"]) as server:
            self.assertGreater(evaluate(server, "gsm8k", examples=200), 0.60)
