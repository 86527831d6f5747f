"""Throughput of one GPU, by backend."""

import unittest

from serving.figures import offline_throughput

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


class TestBenchServing(unittest.TestCase):
    def test_offline_throughput_default(self) -> None:
        self.assertGreater(offline_throughput(MODEL, []), 3000)

    def test_offline_throughput_triton(self) -> None:
        self.assertGreater(offline_throughput(MODEL, ["--attention-backend", "triton"]), 3000)
