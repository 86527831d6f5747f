"""The layers that every MoE method is tested with, and which backends a pool promises."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from testing.harness.device import pool, promised
from testing.harness.moe.layer import MoeCase, MoeMethod
from testing.oracles.moe.routing import Routing

DEEPSEEK = Routing(3, "sigmoid", groups=4, kept_groups=2, factor=2.5, shared=1)


def moe_cases(method: MoeMethod, block: int = 1) -> list[MoeCase]:
    """Every naming, both dtypes, with and without bias, one token and none spare, odd sizes.

    On a GPU two layers that differ in everything, one as large as the field tests them: what takes
    the time there is to compile kernels for each new kind of layer.

    block: what H and I have to be a multiple of; I is one of 128 for formats of 128x128 blocks.
    """

    def case(tokens: int, experts: int, hidden: int, intermediate: int) -> MoeCase:
        wide = -(-hidden // block) * block
        return MoeCase(method, tokens, experts, wide, intermediate)

    plain = case(32, 8, 256, 128)
    odd = case(5, 4, 336, 256)
    grouped = replace(case(9, 8, 128, 384), routing=DEEPSEEK, with_correction=True)
    if pool() != "cpu":
        return [
            replace(case(32, 8, 1024, 1024), thorough=False),
            replace(
                grouped,
                hidden=odd.hidden,
                dtype="float16",
                bias=True,
                naming="fused",
                activation="swiglu_oai",
            ),
        ]
    return [
        plain,
        replace(plain, dtype="float16", naming="mixtral", routing=Routing(3, renormalise=False)),
        odd,
        replace(odd, bias=True, naming="fused", activation="swiglu_oai"),
        replace(odd, dtype="float16", naming="stacked", routing=Routing(1, "sigmoid", factor=2.5)),
        replace(case(1, 4, 1040, 128), naming="mixtral"),
        grouped,
    ]


def on_backends(cases: Sequence[MoeCase], backends: Mapping[str, Sequence[str]]) -> list[MoeCase]:
    """Each case on every backend that this pool promises.

    Of a layer that is not looked at thoroughly a GPU's own backends are enough: the torch backend
    takes it expert by expert.
    """
    own = [b for b in promised(backends) if b != "torch"]
    return [
        replace(case, backend=backend)
        for case in cases
        for backend in (promised(backends) if case.thorough or not own else own)
    ]


def case_id(case: MoeCase) -> str:
    """`T5-E4-H336-I256-top2-bfloat16-fused-swiglu_oai-bias-torch`, for pytest."""
    shape = case.shape.replace("top ", "top").replace("T ", "T").replace("E ", "E")
    shape = shape.replace("H ", "H").replace("I ", "I").replace(" ", "-")
    flags = "-bias" * case.bias + (f"-{case.backend}" if case.backend else "")
    return f"{shape}-{case.dtype}-{case.naming}-{case.activation}{flags}"


def seed_of(case: MoeCase) -> int:
    """A seed of the case's own, the same in every run and on every backend."""
    return zlib.crc32(case_id(replace(case, backend=None)).encode())
