"""What each kernel of attention needs, asked of pretended GPUs with every package installed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from layers.kernels import capability
from layers.kernels.attention import problem as attention_problem
from layers.kernels.attention.attend import ATTENTION
from layers.kernels.attention.problem import AttentionProblem, AttentionSpec
from layers.kernels.capability import BackendUnavailable, Operation, Problem, select_backend
from layers.kernels.gdn import operations as gdn_operations
from layers.kernels.gdn.operations import GDN_CONV, GDN_DECODE, GDN_EXTEND
from layers.kernels.mla import problem as mla_problem
from layers.kernels.mla.absorbed import MLA_ABSORBED
from layers.kernels.mla.problem import MLAProblem, MLASpec
from layers.kernels.mla.unabsorbed import MLA_UNABSORBED
from testing.attention.gdn import backends as gdn
from testing.attention.mla import backends as mla
from testing.harness.attention import backends as attention

GPU = torch.device("cuda", 0)
FP8, FP16, BF16 = torch.float8_e4m3fn, torch.float16, torch.bfloat16
SPEC = AttentionSpec(BF16, 8, 2, 128, 128, 0.1)
LATENT = MLASpec(BF16, 16, 512, 128, 64, 128, 0.1)


@pytest.fixture(autouse=True)
def everything_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLUMBLINE_BACKEND", raising=False)
    for module in (capability, gdn_operations):
        monkeypatch.setattr(module, "is_installed", lambda package: True)
    monkeypatch.setattr(capability, "has_extension", lambda package, extension: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Pretended GPU")


def pretend(monkeypatch: pytest.MonkeyPatch, arch: tuple[int, int]) -> None:
    for module in (capability, attention_problem, mla_problem, gdn_operations):
        monkeypatch.setattr(module, "device_arch", lambda device: arch)


def dense(mode: str = "decode", kv_dtype: torch.dtype | None = None, **spec: object) -> Problem:
    return AttentionProblem.of(replace(SPEC, **spec), mode, kv_dtype)  # type: ignore[arg-type]


def latent(
    mode: str = "decode",
    kv_dtype: torch.dtype | None = None,
    page_size: int | None = None,
    row_tiles: int = 0,
    **spec: object,
) -> Problem:
    changed = replace(LATENT, **spec)  # type: ignore[arg-type]
    return MLAProblem.of(changed, mode, kv_dtype, page_size, row_tiles)


TAKEN: list[tuple[Operation, str, tuple[int, int], Problem]] = [
    (ATTENTION, "flashinfer", (8, 0), dense("draft")),
    (ATTENTION, "flashinfer", (9, 0), dense("decode", FP8)),
    (ATTENTION, "flashinfer", (9, 0), dense("extend", has_sinks=True)),
    (ATTENTION, "flashinfer", (9, 0), dense("decode", has_sinks=True)),
    (ATTENTION, "flashinfer", (9, 0), dense(head_dim=256, v_head_dim=256)),
    (ATTENTION, "triton", (8, 0), dense("decode", BF16)),
    (ATTENTION, "triton", (8, 9), dense("decode", FP8)),
    (ATTENTION, "triton", (9, 0), dense("draft", has_sinks=True, logit_soft_cap=5.0)),
    (ATTENTION, "triton", (9, 0), dense(head_dim=256, v_head_dim=64)),
    (ATTENTION, "torch", (7, 5), dense("draft", FP8, head_dim=320, v_head_dim=8)),
    (MLA_ABSORBED, "flashmla", (9, 0), latent(page_size=64)),
    (MLA_ABSORBED, "flashinfer", (8, 0), latent("extend", page_size=1, row_tiles=16_000)),
    (MLA_ABSORBED, "triton", (8, 9), latent("draft", FP8, 16)),
    (MLA_ABSORBED, "triton", (8, 0), latent("draft", BF16, 1, kv_lora_rank=64)),
    (MLA_ABSORBED, "flashinfer_trtllm", (10, 0), latent(page_size=32)),
    (MLA_ABSORBED, "sgl_kernel_cutlass", (10, 3), latent(page_size=16, num_heads=128)),
    (MLA_ABSORBED, "torch", (7, 5), latent("draft", FP8, 1, kv_lora_rank=1024)),
    (MLA_UNABSORBED, "flashinfer", (9, 0), latent("extend")),
    (MLA_UNABSORBED, "triton", (8, 0), latent("extend", v_head_dim=64)),
]


@pytest.mark.parametrize(("operation", "backend", "arch", "problem"), TAKEN)
def test_what_a_kernel_takes(
    monkeypatch: pytest.MonkeyPatch,
    operation: Operation,
    backend: str,
    arch: tuple[int, int],
    problem: Problem,
) -> None:
    pretend(monkeypatch, arch)
    assert select_backend(operation, GPU, problem, backend).name == backend


REFUSED: list[tuple[Operation, str, tuple[int, int], Problem, str]] = [
    (ATTENTION, "flashinfer", (7, 5), dense(), "needs CUDA sm80 or newer, 'cuda:0' is sm75"),
    (ATTENTION, "triton", (7, 5), dense(), "needs CUDA sm80 or newer"),
    *(
        (ATTENTION, "flashinfer", (9, 0), problem, message)
        for problem, message in [
            (dense("draft", has_sinks=True), "has no sinks in mode 'draft', only in extend or"),
            (dense(has_sinks=True, logit_soft_cap=5.0), "has no sinks with a soft cap, which is 5"),
            (dense(head_dim=96, v_head_dim=96), "needs head_dim of 64, 128 or 256, it is 96"),
            (dense(v_head_dim=96), "needs v_head_dim of 64, 128 or 256, it is 96"),
            (dense(v_head_dim=64), "needs v_head_dim equal to head_dim 128, it is 64"),
            (dense("decode", FP16), "needs a KV cache of the queries' torch.bfloat16, or of"),
        ]
    ),
    (ATTENTION, "triton", (8, 0), dense("decode", FP8), "needs CUDA sm89 or newer for a KV cache"),
    (ATTENTION, "triton", (9, 0), dense(v_head_dim=257), "needs v_head_dim of at most 256, it is"),
    (MLA_ABSORBED, "flashmla", (10, 0), latent(page_size=64), "needs CUDA sm90 to sm90"),
    (MLA_ABSORBED, "flashmla", (9, 0), latent(page_size=32), "needs pages of 64 tokens, they have"),
    (MLA_ABSORBED, "flashmla", (9, 0), latent("extend"), "has no mode 'extend', only decode"),
    (MLA_ABSORBED, "flashmla", (9, 0), latent("decode", FP8), "needs a latent cache of the"),
    (MLA_ABSORBED, "flashmla", (9, 0), latent(kv_lora_rank=256), "needs kv_lora_rank 512 and"),
    (MLA_ABSORBED, "flashinfer_trtllm", (9, 0), latent(), "needs CUDA sm100 to sm103"),
    (MLA_ABSORBED, "flashinfer_trtllm", (10, 0), latent(page_size=1), "needs pages of 32 or 64"),
    (MLA_ABSORBED, "sgl_kernel_cutlass", (12, 0), latent(), "needs CUDA sm100 to sm103"),
    (MLA_ABSORBED, "sgl_kernel_cutlass", (10, 0), latent(num_heads=129), "needs at most 128 heads"),
    (MLA_ABSORBED, "flashinfer", (9, 0), latent("draft"), "has no mode 'draft', only extend or"),
    (MLA_ABSORBED, "flashinfer", (9, 0), latent(row_tiles=16_001), "needs at most 16000 tiles"),
    (MLA_ABSORBED, "flashinfer", (9, 0), latent("extend", num_heads=12), "needs 1, 2, 4, 8, 16"),
    (MLA_ABSORBED, "triton", (8, 0), latent("decode", FP8), "needs CUDA sm89 or newer for a"),
    (MLA_ABSORBED, "triton", (9, 0), latent("decode", FP16), "or of torch.float8_e4m3fn, it is of"),
    (MLA_ABSORBED, "triton", (9, 0), latent(qk_rope_head_dim=128), "needs kv_lora_rank of at most"),
    (
        MLA_UNABSORBED,
        "flashinfer",
        (9, 0),
        latent("extend", v_head_dim=64),
        "needs heads of queries",
    ),
    (MLA_UNABSORBED, "triton", (9, 0), latent("extend", v_head_dim=256), "of values 128, they are"),
    (MLA_UNABSORBED, "triton", (9, 0), latent("decode"), "has no mode 'decode', only extend"),
]


@pytest.mark.parametrize(("operation", "backend", "arch", "problem", "message"), REFUSED)
def test_what_a_kernel_refuses(
    monkeypatch: pytest.MonkeyPatch,
    operation: Operation,
    backend: str,
    arch: tuple[int, int],
    problem: Problem,
    message: str,
) -> None:
    pretend(monkeypatch, arch)
    with pytest.raises(BackendUnavailable, match=re.escape(message)) as raised:
        select_backend(operation, GPU, problem, backend)
    assert f"backend '{backend}'" in str(raised.value)


TABLES: list[tuple[Operation, Problem]] = [
    (ATTENTION, attention.EASY),
    (MLA_ABSORBED, MLAProblem.of(mla.EASY, "decode", BF16, 64)),
    (MLA_UNABSORBED, MLAProblem.of(mla.EASY, "extend", BF16, 64)),
    *((operation, gdn.EASY) for operation in (GDN_CONV, GDN_EXTEND, GDN_DECODE)),
]


@pytest.mark.parametrize(("operation", "problem"), TABLES, ids=lambda x: getattr(x, "name", ""))
def test_the_table_at_a_tests_end_asks_what_every_kernel_takes(
    monkeypatch: pytest.MonkeyPatch, operation: Operation, problem: Problem
) -> None:
    for backend in operation.backends:
        pretend(monkeypatch, backend.needs.min_arch or (7, 5))
        assert operation.availability(GPU, problem)[backend.name] is None, backend.name
