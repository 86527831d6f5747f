"""The triton attention backend end to end."""

import unittest

from serving.figures import evaluate, offline_throughput, time_to_first_token
from serving.launch import launch_server

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
BACKEND = ["--attention-backend", "triton"]


class TestTritonBackend(unittest.TestCase):
    def test_latency(self) -> None:
        with launch_server(MODEL, other_args=[*BACKEND, "--enable-torch-compile"]) as server:
            self.assertLess(time_to_first_token(server, clients=1), 0.2)

    def test_offline_throughput(self) -> None:
        self.assertGreater(offline_throughput(MODEL, BACKEND), 153)

    def test_mmlu(self) -> None:
        with launch_server(MODEL, other_args=BACKEND) as server:
            self.assertGreaterEqual(evaluate(server, "mmlu", examples=64), 0.65)
