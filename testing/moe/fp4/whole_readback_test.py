"""FP4 MoE weights read back through outputs alone, as one kernel that does everything asks for."""

from dataclasses import replace

import pytest

import layers.moe.quantization.mxfp4
import layers.moe.quantization.nvfp4
import layers.quantization.modelopt_fp4
import layers.quantization.mxfp4  # noqa: F401 all register themselves
from testing.harness.device import device
from testing.harness.moe.layer import MoeCase
from testing.harness.moe.whole_readback import read_whole
from testing.moe.fp4.mxfp4_methods import MXFP4
from testing.moe.fp4.nvfp4_methods import W4A4
from testing.moe.moe_cases import case_id, on_backends
from testing.oracles.moe.routing import Routing

BACKENDS = {"cpu": ["torch"], "gpu": ["torch"], "b200": ["flashinfer"]}
NVFP4 = MoeCase(W4A4, 192, 3, 192, 192, Routing(1))
GPT_OSS = replace(NVFP4, method=MXFP4, naming="gpt_oss")


@pytest.mark.parametrize("case", on_backends([NVFP4, GPT_OSS], BACKENDS), ids=case_id)
def test_every_cell_is_where_it_belongs(case: MoeCase) -> None:
    read_whole(case, 70, device()).require()
