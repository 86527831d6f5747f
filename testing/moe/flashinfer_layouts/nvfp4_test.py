"""What post-load hands to FlashInfer's NVFP4 MoE kernel means what the checkpoint means.

The kernel itself needs sm100. A stand-in for it keeps its arguments, which are read here as the
kernel's sources read them (csrc/fused_moe/cutlass_backend): rows of w13 are [up; gate], and

    h = silu(gate · fc1) · (up · fc1),   codes of h · act2,   y = w2 · codes · fc2
"""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import layers.moe.quantization.nvfp4
import layers.quantization.modelopt_fp4  # noqa: F401 both register themselves
from layers.kernels.capability import BackendUnavailable
from layers.moe.layer import FusedMoE
from layers.moe.runners.flashinfer_nvfp4 import prepare
from layers.moe.topk import TopKConfig, TopKOutput
from layers.quantization.registry import get_quantization_config
from layers.weights import load_weights
from testing.moe.flashinfer_layouts.decoded import as_bytes, values
from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e4m3

# I is no multiple of the 64 rows that the kernel wants, H none of the 64 columns of a scale tile.
EXPERTS, HIDDEN, INTERMEDIATE, PADDED = 3, 80, 48, 64
SHAPES = {
    "w1": (INTERMEDIATE, HIDDEN),
    "w3": (INTERMEDIATE, HIDDEN),
    "w2": (HIDDEN, INTERMEDIATE),
}
Named = tuple[str, torch.Tensor]


class Checkpoint:
    """Random experts; global scales are powers of two, so that their products are exact."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.tensors: list[Named] = []
        self.weights: dict[tuple[int, str], Float64] = {}
        self.input_scales: dict[tuple[int, str], float] = {}
        for expert in range(EXPERTS):
            for name, (rows, columns) in SHAPES.items():
                packed = rng.integers(0, 256, (rows, columns // 2), dtype=np.uint8)
                scale = rng.integers(1, 0x7F, (rows, columns // 16), dtype=np.uint8)
                factor, input_scale = (2.0 ** int(rng.integers(-9, 4)) for _ in range(2))
                exact = e2m1.decode(e2m1.unpack(packed)) * np.repeat(e4m3.decode(scale), 16, 1)
                self.weights[expert, name] = exact * factor
                self.input_scales[expert, name] = input_scale
                self.tensors += [
                    (f"{expert}.{name}.weight", torch.from_numpy(packed)),
                    (
                        f"{expert}.{name}.weight_scale",
                        torch.from_numpy(scale).view(torch.float8_e4m3fn),
                    ),
                    (f"{expert}.{name}.weight_scale_2", torch.tensor(factor)),
                    (f"{expert}.{name}.input_scale", torch.tensor(input_scale)),
                ]


def loaded(checkpoint: Checkpoint, **options: Any) -> FusedMoE:
    config = {"quant_method": "modelopt_fp4"}
    layer = FusedMoE(
        EXPERTS,
        HIDDEN,
        INTERMEDIATE,
        topk=TopKConfig(2),
        quant_config=get_quantization_config("modelopt_fp4").from_config(config),
        prefix="experts",
        **options,
    )
    load_weights(layer, checkpoint.tensors)
    return layer


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    names = ("input", "token_selected_experts", "token_final_scales", "fc1", "fc2")

    def cutlass_fused_moe(*args: Any, **options: Any) -> None:
        seen.append({**dict(zip(names, args, strict=True)), **options})

    module = ModuleType("flashinfer.fused_moe")
    module.cutlass_fused_moe = cutlass_fused_moe  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flashinfer", ModuleType("flashinfer"))
    monkeypatch.setitem(sys.modules, "flashinfer.fused_moe", module)
    return seen


def call_once(layer: FusedMoE, calls: list[dict[str, Any]]) -> dict[str, Any]:
    prepare(layer.quant_method, layer)  # type: ignore[arg-type]
    topk = TopKOutput(torch.ones(4, 2), torch.tensor([[0, 2]] * 4, dtype=torch.int32))
    x = torch.ones(4, HIDDEN, dtype=torch.bfloat16)
    out = layer.quant_method.apply(layer, x, topk)
    (call,) = calls
    assert call["output"] is out
    return call


def test_every_matrix_and_factor_is_the_checkpoints(calls: list[dict[str, Any]]) -> None:
    checkpoint = Checkpoint()
    call = call_once(loaded(checkpoint), calls)
    act1, scales1, fc1, act2, scales2, fc2 = call["quant_scales"]
    w13 = values(call["fc1"], scales1, 16)
    w2 = values(call["fc2"], scales2, 16)
    x_scale = max(s for (_, name), s in checkpoint.input_scales.items() if name != "w2")
    assert act1.shape == () and act1.item() == 1 / x_scale
    for expert in range(EXPERTS):
        up, gate = np.split(w13[expert] * fc1[expert].item() / x_scale, 2)
        h_scale = checkpoint.input_scales[expert, "w2"]
        # The factor of h makes up for gate's scale on up.
        up *= act2[expert].item() * h_scale
        down = w2[expert] * fc2[expert].item() / h_scale
        assert np.array_equal(gate[:INTERMEDIATE], checkpoint.weights[expert, "w1"])
        assert np.array_equal(up[:INTERMEDIATE], checkpoint.weights[expert, "w3"])
        assert np.array_equal(down[:, :INTERMEDIATE], checkpoint.weights[expert, "w2"])
        assert not gate[INTERMEDIATE:].any() and not up[INTERMEDIATE:].any()
        assert not down[:, INTERMEDIATE:].any()


def test_shapes_and_dtypes_are_those_the_binding_checks(calls: list[dict[str, Any]]) -> None:
    call = call_once(loaded(Checkpoint()), calls)
    act1, scales1, fc1, act2, scales2, fc2 = call["quant_scales"]
    assert call["fc1"].dtype == call["fc2"].dtype == torch.int64
    assert tuple(call["fc1"].shape) == (EXPERTS, 2 * PADDED, HIDDEN // 16)
    assert tuple(call["fc2"].shape) == (EXPERTS, HIDDEN, PADDED // 16)
    # H 80 has 5 scales a row, padded to 8: two int32. 80 rows of w2 are padded to 128.
    assert scales1.dtype == scales2.dtype == torch.int32
    assert tuple(scales1.shape) == (EXPERTS, 2 * PADDED, 2)
    assert tuple(scales2.shape) == (EXPERTS, 128, 1)
    assert all(t.dtype == torch.float32 for t in (act1, fc1, act2, fc2))
    assert all(tuple(t.shape) == (EXPERTS,) for t in (fc1, act2, fc2))
    assert call["token_selected_experts"].dtype == torch.int32
    assert call["output_dtype"] == torch.bfloat16


def test_no_second_copy_of_a_weight_stays(calls: list[dict[str, Any]]) -> None:
    layer = loaded(Checkpoint())
    call = call_once(layer, calls)
    for name, parameter in (("fc1", layer.w13_weight), ("fc2", layer.w2_weight)):
        assert call[name].data_ptr() == parameter.data_ptr()
        assert as_bytes(call[name]).nbytes == as_bytes(parameter).nbytes


def test_what_the_kernel_would_get_wrong_is_refused() -> None:
    layer = loaded(Checkpoint())
    layer.activation = "swiglu_oai"
    with pytest.raises(BackendUnavailable, match="needs activation 'silu' and no bias"):
        prepare(layer.quant_method, layer)  # type: ignore[arg-type]
