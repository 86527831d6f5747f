"""Numerics of the triton kernels: dense attention against a reference."""

import unittest

from serving.layers import largest_error


class TestDenseTriton(unittest.TestCase):
    def test_extend_and_decode(self) -> None:
        error = largest_error("dense", "triton", heads=64, head_dim=128)
        self.assertLess(error, 0.02)
