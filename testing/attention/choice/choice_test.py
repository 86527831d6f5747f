"""Which backend is taken unasked, and that a batch of no request plans nothing."""

from dataclasses import replace

import pytest
import torch

from layers.attention.choice import ChosenAttention
from layers.attention.kv_cache import PagedKVCache
from layers.attention.layer import Attention
from layers.attention.metadata import AttentionMetadata
from layers.kernels.attention.attend import operation_for
from layers.kernels.attention.attend_torch import TorchAttention
from layers.kernels.attention.problem import AttentionProblem, AttentionSpec

PLAIN = AttentionSpec(torch.bfloat16, 8, 2, 64, 64, 0.125)


@pytest.mark.parametrize(
    ("spec", "kv_dtype", "first"),
    [
        (PLAIN, torch.bfloat16, "flashinfer"),
        (replace(PLAIN, head_dim=128, v_head_dim=128, sliding_window=7), None, "flashinfer"),
        (replace(PLAIN, head_dim=256, v_head_dim=256), torch.bfloat16, "triton"),
        (replace(PLAIN, logit_soft_cap=30.0), torch.bfloat16, "triton"),
        (replace(PLAIN, has_sinks=True), torch.bfloat16, "triton"),
        (PLAIN, torch.float8_e4m3fn, "triton"),
    ],
)
def test_kernels_that_were_never_seen_right_are_not_taken_unasked(
    spec: AttentionSpec, kv_dtype: torch.dtype | None, first: str
) -> None:
    names = [b.name for b in operation_for(AttentionProblem.of(spec, "decode", kv_dtype)).backends]

    assert names[0] == first
    assert names.index("triton") < names.index("torch")
    assert sorted(names) == ["flashinfer", "torch", "triton"]


def test_a_batch_of_no_request_is_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[int] = []

    class Planning(TorchAttention):
        def plan(self, cache: PagedKVCache, metadata: AttentionMetadata) -> None:
            planned.append(metadata.num_requests)

    layer = Attention(8, 2, 64, backend="torch", device="cpu")
    layer.process_weights_after_loading()
    monkeypatch.setattr(ChosenAttention, "choose", lambda *_: Planning(layer.spec))
    cache = PagedKVCache(4, 16, 2, 64, device="cpu")
    q, k, v = (torch.ones(2, heads, 64, dtype=torch.bfloat16) for heads in (8, 2, 2))

    for requests in (0, 2):
        table = torch.arange(4, dtype=torch.int32).view(2, 2)[:requests]
        metadata = AttentionMetadata.decode([17, 3][:requests], table, 16)
        layer.plan(cache, metadata)
        out = layer(q[:requests], k[:requests], v[:requests], cache, metadata)
        assert tuple(out.shape) == (requests, 8 * 64)

    assert planned == [2, 2]
