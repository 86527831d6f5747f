"""Numerics of latent attention with the flashinfer backend."""

import unittest

from serving.layers import largest_error


class TestFlashInferMla(unittest.TestCase):
    def test_decode(self) -> None:
        self.assertLess(largest_error("mla", "flashinfer", heads=128, head_dim=576), 0.02)
