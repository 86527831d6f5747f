"""Numerics of the triton kernels: swa attention against a reference."""

import unittest

from serving.layers import largest_error


class TestSwaTriton(unittest.TestCase):
    def test_extend_and_decode(self) -> None:
        error = largest_error("swa", "triton", heads=32, head_dim=128)
        self.assertLess(error, 0.02)
