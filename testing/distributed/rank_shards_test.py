"""Which rows and columns of a checkpoint each rank takes, with every rank built in one process."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import layers.quantization.blockwise_int8  # noqa: F401 registers itself
from layers.linear.base import LinearBase
from layers.linear.column import ColumnParallelLinear
from layers.linear.merged_column import MergedColumnParallelLinear
from layers.linear.qkv import QKVParallelLinear
from layers.linear.row import RowParallelLinear
from layers.quantization.registry import get_quantization_config

Make = Callable[..., LinearBase]
LAYERS: dict[str, Make] = {
    "column": lambda **o: ColumnParallelLinear(8, 16, **o),
    "merged": lambda **o: MergedColumnParallelLinear(8, [16, 8], **o),
    "row": lambda **o: RowParallelLinear(16, 2, reduce_results=False, **o),
    "kv heads split": lambda **o: QKVParallelLinear(8, 2, 8, 4, **o),
    "kv heads replicated": lambda **o: QKVParallelLinear(8, 2, 4, 2, **o),
    "one kv head": lambda **o: QKVParallelLinear(8, 2, 4, 1, **o),
}
# The rows that ranks 0 to 3 hold of a fused weight whose row i is filled with i.
ROWS = {
    "column": [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]],
    "merged": [
        [0, 1, 2, 3, 16, 17],
        [4, 5, 6, 7, 18, 19],
        [8, 9, 10, 11, 20, 21],
        [12, 13, 14, 15, 22, 23],
    ],
    # 8 query heads of 2 rows, then 4 + 4 key and value heads.
    "kv heads split": [
        [0, 1, 2, 3, 16, 17, 24, 25],
        [4, 5, 6, 7, 18, 19, 26, 27],
        [8, 9, 10, 11, 20, 21, 28, 29],
        [12, 13, 14, 15, 22, 23, 30, 31],
    ],
    # 4 query heads, then 2 + 2: ranks 0 and 1 share the first of each, 2 and 3 the second.
    "kv heads replicated": [
        [0, 1, 8, 9, 12, 13],
        [2, 3, 8, 9, 12, 13],
        [4, 5, 10, 11, 14, 15],
        [6, 7, 10, 11, 14, 15],
    ],
    "one kv head": [
        [0, 1, 8, 9, 10, 11],
        [2, 3, 8, 9, 10, 11],
        [4, 5, 8, 9, 10, 11],
        [6, 7, 8, 9, 10, 11],
    ],
}


def fused_weight(kind: str) -> torch.Tensor:
    rows = max(row for rank in ROWS[kind] for row in rank) + 1
    return torch.arange(rows, dtype=torch.float32).repeat(8, 1).t()


@pytest.mark.parametrize("kind", ROWS.keys())
@pytest.mark.parametrize("rank", range(4))
def test_rows_of_each_rank(kind: str, rank: int) -> None:
    layer = LAYERS[kind](tp_rank=rank, tp_size=4, bias=True, params_dtype=torch.float32)
    weight = fused_weight(kind)
    layer.weight_loader_v2(layer.get_parameter("weight"), weight)
    layer.weight_loader_v2(layer.get_parameter("bias"), weight[:, 0])
    assert layer.get_parameter("weight")[:, 0].tolist() == ROWS[kind][rank]
    assert layer.get_parameter("bias").tolist() == ROWS[kind][rank]
    assert layer.missing_weights() == []


@pytest.mark.parametrize("rank", range(4))
def test_columns_of_each_rank(rank: int) -> None:
    layer = LAYERS["row"](tp_rank=rank, tp_size=4, params_dtype=torch.float32)
    weight = torch.arange(16.0).repeat(2, 1)
    layer.weight_loader_v2(layer.get_parameter("weight"), weight)
    first = 4 * rank
    assert layer.get_parameter("weight").tolist() == [[first, first + 1, first + 2, first + 3]] * 2


def block_column(rows: int, **options: Any) -> LinearBase:
    config = get_quantization_config("blockwise_int8").from_config(
        {"weight_block_size": [128, 128]}
    )
    return ColumnParallelLinear(256, rows, quant_config=config, **options)


@pytest.mark.parametrize("rank", range(2))
def test_block_scales_of_each_rank(rank: int) -> None:
    layer = block_column(512, tp_rank=rank, tp_size=2)
    scale = layer.get_parameter("weight_scale_inv")
    layer.weight_loader_v2(scale, torch.arange(8.0).reshape(4, 2))
    assert scale.tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]][rank]


TWO: dict[str, Any] = {"tp_rank": 1, "tp_size": 2, "prefix": "mlp.layer"}
FOUR: dict[str, Any] = {"tp_rank": 1, "tp_size": 4, "prefix": "mlp.layer"}
REFUSED: list[tuple[Callable[[], LinearBase], str]] = [
    (lambda: ColumnParallelLinear(8, 18, **FOUR), "output size 18 is not divisible"),
    (
        lambda: MergedColumnParallelLinear(8, [16, 18], **FOUR),
        "output size of shard 1, 18 is not divisible",
    ),
    (lambda: MergedColumnParallelLinear(8, [], **FOUR), "output_sizes is empty"),
    (
        lambda: RowParallelLinear(18, 8, reduce_results=False, **FOUR),
        "input size 18 is not divisible",
    ),
    (lambda: QKVParallelLinear(8, 2, 6, 6, **FOUR), "number of query heads 6 is not divisible"),
    (
        lambda: QKVParallelLinear(8, 2, 12, 6, **FOUR),
        "number of key-value heads 6 is not divisible",
    ),
    (
        lambda: QKVParallelLinear(8, 2, 12, 3, **FOUR),
        "3 key-value heads cannot be replicated evenly over 4 ranks",
    ),
    (lambda: QKVParallelLinear(8, 2, 12, 8, **FOUR), "12 query heads cannot share 8 key-value"),
    (lambda: QKVParallelLinear(8, 0, 4, **FOUR), "heads of size 0, wanted at least 1"),
    (lambda: QKVParallelLinear(8, 2, 4, 0, **FOUR), "0 key-value heads of size 2"),
    (
        lambda: ColumnParallelLinear(8, 16, gather_output=True, **TWO),
        "gather_output exchanges data between the ranks",
    ),
    (
        lambda: MergedColumnParallelLinear(8, [16, 8], gather_output=True, **TWO),
        "gather_output exchanges data between the ranks",
    ),
    (lambda: RowParallelLinear(16, 8, **TWO), "reduce_results exchanges data between the ranks"),
    (lambda: ColumnParallelLinear(8, 16, tp_rank=1, prefix="mlp.layer"), "tp_size None do not fit"),
    (
        lambda: ColumnParallelLinear(8, 16, tp_rank=2, tp_size=2, prefix="mlp.layer"),
        "tp_rank 2 and tp_size 2 do not fit",
    ),
    # 192 rows a rank: the second scale block would belong to both.
    (lambda: block_column(384, **TWO), "192 of 384 rows on this rank, starting at row 192"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_sizes_that_ranks_cannot_share(make: Callable[[], LinearBase], message: str) -> None:
    with pytest.raises(ValueError, match=rf"layer 'mlp\.layer': .*{re.escape(message)}"):
        make()
