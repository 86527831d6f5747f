"""Numerics of the triton kernels: gdn attention against a reference."""

import unittest

from serving.layers import largest_error


class TestGdnTriton(unittest.TestCase):
    def test_extend_and_decode(self) -> None:
        error = largest_error("gdn", "triton", heads=16, head_dim=128)
        self.assertLess(error, 0.02)
