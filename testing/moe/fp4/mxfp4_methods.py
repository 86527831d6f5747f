"""MXFP4 MoE layers as gpt-oss checkpoints name them, and the backends that each pool promises."""

from dataclasses import replace

from testing.harness.device import pool
from testing.harness.moe.layer import MoeCase, MoeMethod
from testing.oracles.error_model.accumulators import BLACKWELL, HOPPER_BF16
from testing.oracles.linear_formats.mx import Mxfp4
from testing.oracles.moe.propagation import Arithmetic
from testing.oracles.moe.routing import Routing
from testing.oracles.rounding import FloatType


def _flashinfer(kind: FloatType) -> Arithmetic:
    # As layers.moe.runners.flashinfer_mxfp4 says of the kernel; it has not been run.
    return Arithmetic(kind, down=kind, weights=kind)


MXFP4 = MoeMethod(
    Mxfp4(),
    {"quant_method": "mxfp4"},
    rounds={"flashinfer": _flashinfer},
    accumulators={"triton": HOPPER_BF16, "flashinfer": BLACKWELL},
)
MXFP4_BACKENDS = {
    "cpu": ["torch"],
    "gpu": ["triton", "torch"],
    "b200": ["flashinfer", "triton", "torch"],
}
# (E, H, I). The larger ones take a CPU's oracle minutes; on a GPU each kind of layer has to be
# compiled.
_SHAPES = {"cpu": [(4, 256, 256), (4, 192, 192)]}
_GPU_SHAPES = [(4, 192, 192), (8, 768, 384), (8, 1024, 1024), (4, 2880, 2880)]


def gpt_oss_cases() -> list[MoeCase]:
    """gpt-oss's names, biases, activation and interleaved rows, in the sizes that the field tests.

    On a CPU also single experts' names, without biases, with the other activation.
    """
    cases = [
        MoeCase(
            MXFP4,
            32 if hidden <= 1024 else 5,
            experts,
            hidden,
            intermediate,
            activation="swiglu_oai",
            bias=True,
            naming="gpt_oss",
            thorough=hidden < 512,
        )
        for experts, hidden, intermediate in _SHAPES.get(pool(), _GPU_SHAPES)
    ]
    if pool() != "cpu":
        return cases
    plain = replace(cases[1], activation="silu", bias=False, naming="deepseek", tokens=5)
    return [
        *cases,
        replace(cases[1], dtype="float16", tokens=1, routing=Routing(4)),
        replace(cases[0], bias=False, tokens=7),
        plain,
        replace(plain, naming="mixtral", bias=True, hidden=352, intermediate=96),
    ]
