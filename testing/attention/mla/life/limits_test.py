"""A shape beyond a GPU backend's limits is refused with these, before any kernel runs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layers.kernels.capability import BackendUnavailable
from testing.attention.mla import cases
from testing.attention.mla.call import random_call
from testing.attention.mla.layer import DEEPSEEK, SMALL, MlaCase, build
from testing.attention.mla.methods import UNQUANTISED_FP16
from testing.harness.attention.pages import frozen
from testing.harness.device import device

DECODE = replace(cases.DECODE, shape=DEEPSEEK)
CHAIN = replace(cases.CHAIN, shape=DEEPSEEK)
LOADS: list[tuple[MlaCase, str]] = [
    (replace(DECODE, shape=SMALL, backend="flashinfer"), "needs kv_lora_rank 512 and"),
    (replace(DECODE, shape=SMALL, backend={"decode": "flashmla"}), "needs kv_lora_rank 512 and"),
    (replace(DECODE, backend={"draft": "flashinfer"}), "has no mode 'draft'"),
    (replace(DECODE, backend={"extend": "flashmla"}), "has no mode 'extend', only decode"),
    (replace(DECODE, backend={"decode": "flashinfer_trtllm"}), "needs CUDA sm100"),
    (replace(DECODE, backend={"decode": "sgl_kernel_cutlass"}), "needs CUDA sm100"),
]
CALLS: list[tuple[MlaCase, str]] = [
    (replace(DECODE, backend={"decode": "flashmla"}), "needs pages of 64 tokens, they have 16"),
    (replace(CHAIN, backend="flashinfer"), "has no mode 'draft', only extend or decode"),
    (
        replace(DECODE, page_size=64, backend={"decode": "flashmla"}, fp8_scale=0.02),
        "needs a latent cache of the queries' torch.bfloat16, it is of torch.float8_e4m3fn",
    ),
    (
        replace(cases.MIXED, shape=cases.heads(DEEPSEEK, 3), backend="flashinfer"),
        "heads on a rank",
    ),
]


def ident(value: Any) -> str:
    return cases.case_id(value) + f" {value.backend}" if isinstance(value, MlaCase) else "-"


@pytest.mark.parametrize(("case", "message"), LOADS, ids=ident)
def test_refused_as_it_is_built(case: MlaCase, message: str) -> None:
    checkpoint = case.checkpoint(np.random.default_rng(0))
    with pytest.raises(BackendUnavailable, match=message):
        build(case, checkpoint, device())


@pytest.mark.parametrize(("case", "message"), CALLS, ids=ident)
def test_refused_before_anything_is_written(case: MlaCase, message: str) -> None:
    rng = np.random.default_rng(0)
    checkpoint = case.checkpoint(rng)
    try:
        loaded = build(case, checkpoint, device())
    except BackendUnavailable as error:
        assert message in str(error)
        return
    inputs = random_call(case, checkpoint, rng).inputs(device())
    before = frozen(inputs.cache.pages)
    with pytest.raises(BackendUnavailable, match=message):
        inputs.forward(loaded.layer)
    assert np.array_equal(frozen(inputs.cache.pages), before)


def test_a_choice_by_capability_takes_what_there_is() -> None:
    for case, wanted in (
        (replace(DECODE, page_size=64, backend="auto"), "flashmla"),
        (replace(DECODE, page_size=16, backend="auto"), "flashinfer"),
        (replace(CHAIN, backend="auto"), "triton"),
        (
            replace(CHAIN, backend="auto", method=UNQUANTISED_FP16, dtype="float16", shape=SMALL),
            "triton",
        ),
    ):
        rng = np.random.default_rng(1)
        checkpoint = case.checkpoint(rng)
        loaded = build(case, checkpoint, device())
        random_call(case, checkpoint, rng).inputs(device()).forward(loaded.layer)
        assert loaded.layer.backends[case.mode] == wanted
