"""Which backend is taken unasked and how it is named; a batch of no request plans nothing."""

from dataclasses import replace

import pytest
import torch

from layers.attention.choice import ChosenAttention
from layers.attention.kv_cache import PagedKVCache
from layers.attention.layer import Attention
from layers.attention.metadata import AttentionMetadata
from layers.attention.mla.choice import ChosenMLA
from layers.attention.mla.kv_cache import MLAKVCache
from layers.kernels.attention.attend import operation_for
from layers.kernels.attention.attend_torch import TorchAttention
from layers.kernels.attention.problem import AttentionNeeds, AttentionProblem, AttentionSpec
from layers.kernels.capability import Backend, Operation
from layers.kernels.mla.absorbed_torch import TorchAbsorbed
from layers.kernels.mla.problem import MLANeeds, MLASpec

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
def test_kernels_that_were_never_timed_are_not_taken_unasked(
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


DECODE = AttentionMetadata.decode([3], torch.zeros(1, 1, dtype=torch.int32), 16)
TURNS = (torch.bfloat16, torch.float8_e4m3fn, torch.bfloat16, torch.float8_e4m3fn)
NAMES = ["sixteen", "any", "sixteen", "any"]


def test_backends_names_the_choice_for_the_cache_seen_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_cache(problem: AttentionProblem) -> Operation:
        name = "any" if problem.kv_dtype is torch.float8_e4m3fn else "sixteen"
        return Operation("attention", (Backend(name, AttentionNeeds(), lambda: TorchAttention),))

    monkeypatch.setattr("layers.attention.choice.operation_for", by_cache)
    chosen = ChosenAttention("attn", PLAIN, torch.device("cpu"), None)
    seen = []
    for dtype in TURNS:
        chosen.choose(PagedKVCache(2, 16, 2, 64, dtype=dtype, device="cpu"), DECODE)
        seen.append(chosen.backends["decode"])
    assert seen == NAMES


def test_mla_backends_names_the_choice_for_the_cache_seen_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = tuple(
        Backend(name, MLANeeds(fp8=name == "any"), lambda: TorchAbsorbed)
        for name in ("sixteen", "any")
    )
    monkeypatch.setattr(
        "layers.attention.mla.choice.MLA_ABSORBED", Operation("mla_absorbed", backends)
    )
    spec = MLASpec(torch.bfloat16, 4, 32, 16, 16, 16, 0.25)
    chosen = ChosenMLA("attn", spec, torch.device("cpu"), {}, all_uses=False)
    seen = []
    for dtype in TURNS:
        chosen.choose(MLAKVCache(2, 16, 32, 16, dtype, "cpu"), DECODE)
        seen.append(chosen.backends["decode"])
    assert seen == NAMES


def test_a_large_batch_goes_to_a_backend_that_has_room_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = tuple(
        Backend(name, MLANeeds(max_row_tiles=tiles), lambda: TorchAbsorbed)
        for name, tiles in (("bounded", 16_000), ("any", None))
    )
    monkeypatch.setattr(
        "layers.attention.mla.choice.MLA_ABSORBED", Operation("mla_absorbed", backends)
    )
    spec = MLASpec(torch.bfloat16, 128, 32, 16, 16, 16, 0.25)
    chosen = ChosenMLA("attn", spec, torch.device("cpu"), {}, all_uses=False)
    cache, seen = MLAKVCache(2, 16, 32, 16, device="cpu"), []
    for tokens in (16, 7998, 7999, 8000, 16):
        # Of 128 heads each token makes two tiles of 64 rows, and each request one that is not full.
        table = torch.zeros((1, 500), dtype=torch.int32)
        chosen.choose(cache, AttentionMetadata.extend([tokens], [tokens], table, 16))
        seen.append(chosen.backends["extend"])

    assert seen == ["bounded", "bounded", "bounded", "any", "bounded"]
