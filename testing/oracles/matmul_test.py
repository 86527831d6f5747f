"""The reference product by hand, and its split by K blocks."""

import numpy as np

from testing.oracles.matmul import blocked_matmul, matmul


def test_by_hand() -> None:
    x, w = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0], [-1.0, 0.5]])
    assert matmul(x, w).tolist() == [[11.0, 17.0, 0.0]]
    assert matmul(x, w, np.array([1.0, 0.0, -1.0])).tolist() == [[12.0, 17.0, -1.0]]


def test_blocks_add_up_and_the_last_may_be_partial() -> None:
    x, w = np.arange(1.0, 6.0)[None], np.ones((1, 5))
    assert blocked_matmul(x, w, 2).tolist() == [[[3.0]], [[7.0]], [[5.0]]]
