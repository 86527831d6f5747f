"""What an MLA layer cannot take is refused by name, before anything is written or run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from layers.attention.kv_cache import PagedKVCache
from layers.attention.metadata import AttentionMetadata
from layers.attention.mla.kv_cache import MLAKVCache
from layers.kernels.capability import BackendUnavailable
from layers.kernels.mla.absorbed_torch import TorchAbsorbed
from testing.attention.mla import cases
from testing.attention.mla.call import Call, random_call
from testing.attention.mla.layer import DEEPSEEK, Inputs, LoadedMla, MlaCase, build, new_layer
from testing.harness.attention.pages import frozen

CASE = cases.MIXED


@pytest.fixture(scope="module")
def loaded_and_call() -> tuple[LoadedMla, Call]:
    rng = np.random.default_rng(0)
    checkpoint = CASE.checkpoint(rng)
    return build(CASE, checkpoint, "cpu"), random_call(CASE, checkpoint, rng)


def longer_cache(inputs: Inputs) -> Inputs:
    cache = MLAKVCache(4, 16, CASE.shape.rank + 16, CASE.shape.rope.dim)
    return replace(inputs, cache=cache)


def other_pages(inputs: Inputs) -> Inputs:
    table = inputs.metadata.page_table
    metadata = AttentionMetadata.extend(CASE.query_lens, CASE.kv_lens, table, 32)
    return replace(inputs, metadata=metadata)


FORWARDS: dict[str, tuple[Callable[[Inputs], Inputs], str]] = {
    "q of too few tokens": (lambda i: replace(i, q=i.q[1:]), r"q is \(48, .*wanted \(49, 4, 48\)"),
    "q of another head": (lambda i: replace(i, q=i.q[..., 1:]), r"q is .*47\)"),
    "kv_c in float32": (lambda i: replace(i, kv_c=i.kv_c.float()), "kv_c is .*float32"),
    "k_pe per head": (lambda i: replace(i, k_pe=i.k_pe[:, None]), "k_pe is"),
    "a gradient": (lambda i: replace(i, q=i.q.clone().requires_grad_()), "q requires a gradient"),
    "a gradient of kv_c": (
        lambda i: replace(i, kv_c=i.kv_c.clone().requires_grad_()),
        "kv_c requires a gradient",
    ),
    "k_pe elsewhere": (lambda i: replace(i, k_pe=i.k_pe.to("meta")), "k_pe is .* on meta, wanted"),
    "positions of too few tokens": (
        lambda i: replace(i, positions=i.positions[1:]),
        r"positions are \(48,\) torch.int64",
    ),
    "positions elsewhere": (
        lambda i: replace(i, positions=i.positions.to("meta")),
        "positions are .* on meta, wanted",
    ),
    "positions in float": (
        lambda i: replace(i, positions=i.positions.float()),
        r"positions are \(49,\) torch.float32",
    ),
    "positions beyond the table": (
        lambda i: replace(i, positions=i.positions + 10000),
        "positions reach from 10000 .*larger max_position",
    ),
    "a cache of other sizes": (longer_cache, r"the cache has .*\(144, 16\), wanted \(128, 16\)"),
    "other pages": (other_pages, "the metadata has pages of 32 tokens, the cache of 16"),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_forward_refuses_and_writes_nothing(
    name: str, loaded_and_call: tuple[LoadedMla, Call]
) -> None:
    loaded, call = loaded_and_call
    change, message = FORWARDS[name]
    inputs = change(call.inputs("cpu"))
    before = frozen(inputs.cache.pages)
    with pytest.raises(ValueError, match=message):
        inputs.forward(loaded.layer)
    assert np.array_equal(frozen(inputs.cache.pages), before)


def test_a_layer_without_weights_says_what_to_call(
    loaded_and_call: tuple[LoadedMla, Call],
) -> None:
    layer = new_layer(CASE, "cpu")
    with pytest.raises(RuntimeError, match="process_weights_after_loading"):
        loaded_and_call[1].inputs("cpu").forward(layer)


def test_what_is_no_latent_cache_is_refused(
    loaded_and_call: tuple[LoadedMla, Call],
) -> None:
    loaded, call = loaded_and_call
    pages: Any = PagedKVCache(4, 16, 1, 64, device="cpu")
    inputs = replace(call.inputs("cpu"), cache=pages)
    with pytest.raises(ValueError, match="the cache is a PagedKVCache, wanted the kind MLAKVCache"):
        inputs.forward(loaded.layer)


CONSTRUCTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "path": ({"path": "unabsorbed"}, "path is 'unabsorbed', wanted 'auto' or 'absorbed'"),
    "dtype": ({"dtype": "float32"}, "params_dtype is torch.float32, wanted torch.float16 or"),
    "heads": ({"shape": cases.heads(CASE.shape, 0)}, "num_heads is 0, wanted at least 1"),
    "scaling": ({"shape": replace(CASE.shape, scaling=float("nan"))}, "scaling is nan"),
    "use": ({"backend": {"prefill": "torch"}}, "backend names the use 'prefill', wanted some of"),
}


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_construction_refuses(name: str) -> None:
    change, message = CONSTRUCTIONS[name]
    with pytest.raises(ValueError, match=message):
        new_layer(replace(CASE, **change), "cpu")


def test_ranks_that_do_not_divide_the_heads() -> None:
    with pytest.raises(ValueError, match="num_heads"):
        new_layer(CASE, "cpu", tp_rank=0, tp_size=3)


@pytest.mark.parametrize(
    ("backend", "needs"),
    [
        ("triton", "CUDA sm80 or newer"),
        ("flashinfer", "CUDA sm80 or newer"),
        ("flashmla", "CUDA sm90 to sm90"),
        ("flashinfer_trtllm", "CUDA sm100 to sm103"),
        ("sgl_kernel_cutlass", "CUDA sm100 to sm103"),
    ],
)
def test_a_backend_that_this_device_lacks(backend: str, needs: str) -> None:
    case = MlaCase("decode", (1,), (5,), shape=DEEPSEEK, backend=backend)
    message = rf"backend '{backend}' needs a GPU \({needs}\), the layer is on 'cpu'.*can run here"
    with pytest.raises(BackendUnavailable, match=message):
        build(case, case.checkpoint(np.random.default_rng(1)), "cpu")


def test_a_backend_that_there_is_not() -> None:
    case = replace(CASE, backend="flash")
    with pytest.raises(BackendUnavailable, match="mla_absorbed has no backend 'flash'; it has"):
        build(case, case.checkpoint(np.random.default_rng(1)), "cpu")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_pages": 0}, "MLAKVCache: num_pages is 0, wanted at least 1"),
        ({"page_size": 8}, r"MLAKVCache: page_size is 8, wanted one of \(1, 16, 32, 64\)"),
        ({"qk_rope_head_dim": 0}, "MLAKVCache: qk_rope_head_dim is 0"),
        ({"dtype": torch.float32}, "dtype is torch.float32"),
        ({"scale": 0.5}, "holds no codes"),
        ({"scale": -1.0, "dtype": torch.float8_e4m3fn}, "scale is -1.0"),
    ],
)
def test_a_cache_that_no_kernel_reads(options: dict[str, Any], message: str) -> None:
    sizes = {"num_pages": 4, "page_size": 16, "kv_lora_rank": 128, "qk_rope_head_dim": 16}
    with pytest.raises(ValueError, match=message):
        MLAKVCache(**(sizes | options))


def test_a_batch_of_no_request_asks_no_backend_for_a_plan(
    loaded_and_call: tuple[LoadedMla, Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, call = loaded_and_call
    inputs = call.inputs("cpu")
    planned: list[int] = []
    monkeypatch.setattr(TorchAbsorbed, "plan", lambda *arguments: planned.append(1))
    table = inputs.metadata.page_table[:0]
    size = inputs.metadata.page_size
    loaded.layer.plan(inputs.cache, AttentionMetadata.decode([], table, size))
    assert not planned
    loaded.layer.plan(inputs.cache, inputs.metadata)
    assert planned
