"""Channel and block int8 through the real linear layer and loader."""

import unittest

from serving.layers import int8_error
from serving.platform import get_device_sm


@unittest.skipIf(get_device_sm() >= 100, "the int8 GEMM has no build for sm100")
class TestInt8LinearMethods(unittest.TestCase):
    def test_channel(self) -> None:
        self.assertLess(int8_error("channel", rows=512, columns=1024), 0.001)

    def test_block(self) -> None:
        self.assertLess(int8_error("block", rows=512, columns=1024), 0.001)
