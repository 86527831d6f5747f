"""The formats of MoE layers, and the layers of each to plant faults in."""

from __future__ import annotations

from dataclasses import replace

from testing.harness.moe.layer import MoeMethod
from testing.moe.fp4.mxfp4_methods import MXFP4
from testing.moe.fp4.nvfp4_methods import W4A4
from testing.moe.fp8 import methods as fp8
from testing.moe.int8 import methods as int8
from testing.oracles.unquantised_formats import Unquantised
from testing.strength.moe.bench import MoeBench, benches

METHODS = {
    "unquantised": MoeMethod(Unquantised(), None),
    "int8_channel": int8.CHANNEL,
    "int8_block": int8.BLOCK,
    "fp8_tensor_static": fp8.STATIC,
    "fp8_tensor_dynamic": fp8.DYNAMIC,
    "fp8_channel": fp8.CHANNEL,
    "fp8_block": fp8.BLOCK,
    "nvfp4": W4A4,
    "mxfp4": MXFP4,
}
ALL = tuple(METHODS)
PLAIN = ("unquantised",)
SCALED = tuple(name for name in ALL if name not in PLAIN)
FLOAT_SCALES = tuple(name for name in SCALED if name != "mxfp4")
BENCHES = {name: benches(method) for name, method in METHODS.items()}
# As gpt-oss has it: all experts in one tensor, rows in turn; neither H nor I fills its tiles.
_GATED = BENCHES["mxfp4"]["gated"]
assert isinstance(_GATED, MoeBench)
BENCHES["mxfp4"]["gpt_oss"] = MoeBench(
    replace(_GATED.case, naming="gpt_oss", hidden=192, intermediate=96)
)
