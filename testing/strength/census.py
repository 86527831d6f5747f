"""Every fault that is planted anywhere, by format."""

from __future__ import annotations

from collections import defaultdict

from testing.strength.attention import faults as attention
from testing.strength.fault import Fault
from testing.strength.fp8 import faults as fp8
from testing.strength.int8 import faults as int8
from testing.strength.moe import faults as moe
from testing.strength.moe import fp4_faults as moe_fp4
from testing.strength.mx import faults as mx
from testing.strength.nvfp4 import faults as nvfp4

LINEAR = [*int8.FAULTS, *fp8.FAULTS, *nvfp4.FAULTS, *mx.FAULTS]
MOE = [*moe.FAULTS, *moe_fp4.FAULTS]
ATTENTION = [*attention.FAULTS]


def by_format() -> dict[str, list[Fault]]:
    """{format: its faults}; of MoE layers as `moe FORMAT`, of attention as `attention KIND`."""
    found: dict[str, list[Fault]] = defaultdict(list)
    for prefix, faults in (("", LINEAR), ("moe ", MOE), ("attention ", ATTENTION)):
        for fault in faults:
            for fmt in fault.formats:
                found[f"{prefix}{fmt}"].append(fault)
    return dict(found)
