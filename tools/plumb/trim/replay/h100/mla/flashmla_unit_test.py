"""Numerics of latent attention with the flashmla backend."""

import unittest

from serving.layers import largest_error


class TestFlashMlaMla(unittest.TestCase):
    def test_decode(self) -> None:
        self.assertLess(largest_error("mla", "flashmla", heads=128, head_dim=576), 0.02)
