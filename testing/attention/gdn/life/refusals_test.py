"""What a gated delta layer cannot take is refused by name, before anything is written or run."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from layers.attention.gdn.layer import GatedDeltaNet
from layers.attention.gdn.metadata import GDNMetadata
from layers.attention.gdn.state import GDNState
from layers.kernels.capability import BackendUnavailable
from testing.attention.gdn.layer import QWEN, GdnCase, Inputs, build, inputs_of, new_layer

CASE = GdnCase("extend", (3, 2))
SIZES = {"num_k_heads": 4, "num_v_heads": 8, "head_k_dim": 16, "head_v_dim": 8, "prefix": "gdn"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_v_heads": 6}, "num_v_heads 6 is not divisible by num_k_heads 4"),
        ({"head_k_dim": 0}, "head_k_dim is 0, wanted at least 1"),
        ({"head_v_dim": 8.0}, "head v dim is 8.0, wanted an integer"),
        ({"conv_width": 1}, "conv_width is 1, wanted at least 2"),
        ({"params_dtype": torch.int8}, "params_dtype is torch.int8"),
        ({"backend": "cuda"}, "backend is 'cuda', wanted 'auto' or one of 'torch', 'triton'"),
        ({"tp_rank": 0, "tp_size": 8}, "num_k_heads 4 is not divisible by the tensor parallel"),
    ],
)
def test_sizes_and_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GatedDeltaNet(**{**SIZES, **options})


@pytest.mark.parametrize(
    ("backend", "case", "message"),
    [
        ("triton", CASE, r"gdn_extend: backend 'triton' needs a GPU \(CUDA sm80 or newer\)"),
        ("flashinfer", CASE, "'flashinfer' needs head_k_dim and head_v_dim of 128, they are 32"),
        ("flashinfer", replace(CASE, shape=QWEN), r"needs a GPU \(CUDA sm90 to sm103\)"),
        ("sgl_kernel", CASE, "gdn_extend has no backend 'sgl_kernel'; it has 'triton'"),
    ],
)
def test_a_backend_that_cannot_run(backend: str, case: GdnCase, message: str) -> None:
    asked = replace(case, backend=backend)
    with pytest.raises(BackendUnavailable, match=message):
        build(asked, asked.call(np.random.default_rng(1)), "cpu")


def ready() -> tuple[GatedDeltaNet, Inputs]:
    call = CASE.call(np.random.default_rng(2))
    layer = build(CASE, call, "cpu")
    return layer, inputs_of(layer, CASE, call)


def spoilt(inputs: Inputs, what: str) -> Inputs:
    """One argument that does not fit."""
    fresh = GDNState(6, 2, 4, 32, 48, dtype=torch.bfloat16)
    match what:
        case "mixed_qkv":
            return replace(inputs, mixed=inputs.mixed[:, 1:])
        case "dtype":
            return replace(inputs, mixed=inputs.mixed.float())
        case "gradient":
            return replace(inputs, mixed=inputs.mixed.clone().requires_grad_())
        case "device":
            return replace(inputs, mixed=inputs.mixed.to("meta"))
        case "metadata":
            elsewhere = GDNMetadata.extend([3, 2], [0, 1], [True, True], "meta")
            return replace(inputs, metadata=elsewhere)
        case "a":
            return replace(inputs, a=inputs.a[:-1])
        case "b":
            return replace(inputs, b=inputs.b.int())
        case "state.conv":
            fresh.conv = fresh.conv.half()
        case "state.ssm":
            fresh.ssm = fresh.ssm[:, :2]
        case "strides":
            fresh.ssm = fresh.ssm.contiguous()
        case "slots":
            metadata = GDNMetadata.extend([3, 2], [0, 6], [True, True])
            return replace(inputs, state=fresh, metadata=metadata)
    return replace(inputs, state=fresh)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("mixed_qkv", r"mixed_qkv is \(5, 319\)"),
        ("dtype", r"mixed_qkv is \(5, 320\) torch.float32 on cpu, wanted .*torch.bfloat16"),
        ("gradient", "mixed_qkv is .*, which requires a gradient that the layer does not give"),
        ("device", "mixed_qkv is .* on meta, wanted .* on cpu"),
        ("metadata", "metadata is on meta, wanted cpu"),
        ("a", r"a is \(4, 4\) torch.bfloat16 on cpu, wanted \(5, 4\) of a float dtype"),
        ("b", r"b is \(5, 4\) torch.int32"),
        ("state.conv", r"state.conv is \(6, 320, 3\) torch.float16"),
        ("state.ssm", r"state.ssm is \(6, 2, 32, 48\)"),
        ("strides", "wanted the memory that GDNState makes"),
        ("slots", "state_indices has 6, the state has 6 slots"),
    ],
)
def test_arguments_of_forward(what: str, message: str) -> None:
    layer, inputs = ready()
    wrong = spoilt(inputs, what)
    before = wrong.state.conv.clone(), wrong.state.ssm.clone()
    with pytest.raises(ValueError, match=message):
        wrong.forward(layer)
    for now, old in zip((wrong.state.conv, wrong.state.ssm), before, strict=True):
        torch.testing.assert_close(now, old, rtol=0, atol=0, equal_nan=True)


def test_gates_that_flashinfer_would_round() -> None:
    layer, inputs = ready()
    layer.backends["gdn_decode"] = "flashinfer"
    wide = replace(
        inputs,
        mixed=inputs.mixed[:2],
        a=inputs.a[:2].float(),
        b=inputs.b[:2],
        metadata=GDNMetadata.decode([0, 1]),
    )
    with pytest.raises(ValueError, match=r"a is \(2, 4\) torch.float32 .*of torch.bfloat16"):
        wide.forward(layer)


def test_a_forward_before_its_time() -> None:
    _, inputs = ready()
    with pytest.raises(RuntimeError, match="process_weights_after_loading"):
        inputs.forward(new_layer(CASE, "cpu"))


@pytest.mark.parametrize(
    ("lengths", "slots", "initial", "message"),
    [
        ([1, 0], [0, 1], [True, True], "request 1 has 0 tokens, wanted at least 1"),
        ([1, 1], [2, 2], [True, True], "state_indices has 2, wanted slots of at least 0, each"),
        ([1, 1], [2, -1], [True, True], "state_indices has -1"),
        ([1, 1], [0], [True, True], "2 query_lens, 1 state_indices and 2 has_initial_state"),
        ([], [], [], "0 query_lens"),
    ],
)
def test_metadata_of_extend(
    lengths: list[int], slots: list[int], initial: list[bool], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        GDNMetadata.extend(lengths, slots, initial)


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([3, 3], "GDNMetadata.decode: state_indices has 3"),
        (torch.tensor([1, 1]), "state_indices has 1"),
        (torch.tensor([0.0, 1.0]), r"\(2,\) torch.float32, wanted \(requests,\) of torch.int32"),
        (torch.zeros(2, 1, dtype=torch.int64), r"\(2, 1\) torch.int64"),
    ],
)
def test_metadata_of_decode(slots: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GDNMetadata.decode(slots)


@pytest.mark.parametrize("slots", [0, -1, 2.0])
def test_a_state_without_slots(slots: Any) -> None:
    with pytest.raises(ValueError, match=r"num.slots is"):
        GDNState(slots, 2, 4, 32, 48)


@pytest.mark.parametrize("place", range(5))
def test_a_state_of_no_size(place: int) -> None:
    sizes = [2, 4, 32, 48, 4]
    sizes[place] = 0
    with pytest.raises(ValueError, match=r"GDNState: .* is 0, wanted at least 1"):
        GDNState(6, *sizes)
