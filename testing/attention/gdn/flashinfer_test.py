"""Gated delta layers by FlashInfer's kernels, against the recurrence token by token."""

from dataclasses import replace

import numpy as np
import pytest

from layers.kernels.capability import BackendUnavailable
from testing.attention.gdn import cases
from testing.attention.gdn.backends import list_gdn_backends, missing
from testing.attention.gdn.continued import examine_in_parts
from testing.attention.gdn.examine import examine_case, seed_of
from testing.attention.gdn.layer import QWEN, GdnCase, build
from testing.harness.device import device

list_gdn_backends()
LACKS = missing("flashinfer")
# An image may hold FlashInfer without the package that its decode kernel is written in.
needs_its_packages = pytest.mark.skipif(LACKS is not None, reason=f"flashinfer {LACKS}")
CASES = cases.on([*cases.EXTEND, *cases.DECODE], "flashinfer", QWEN)
ONE_HEAD = replace(QWEN, k_heads=1, v_heads=2)
LONG = replace(cases.LONG, backend="flashinfer", shape=ONE_HEAD)
IN_PARTS = GdnCase("extend", (140,), (False,), backend="flashinfer", shape=QWEN)


@pytest.mark.skipif(LACKS is None, reason="flashinfer can run here")
def test_what_the_image_lacks_is_named() -> None:
    case = CASES[0]
    with pytest.raises(BackendUnavailable, match=r"backend 'flashinfer' needs .*can run here"):
        build(case, case.call(np.random.default_rng(0)), device())


@needs_its_packages
@pytest.mark.parametrize("case", CASES, ids=cases.case_id)
def test_output_and_states(case: GdnCase) -> None:
    examine_case(case, seed_of(case), device()).require()


@needs_its_packages
def test_a_long_text() -> None:
    examine_case(LONG, seed_of(LONG), device(), replicas=8).require()


@needs_its_packages
@pytest.mark.parametrize("cuts", [(1,), (2, 66), (63, 64, 129), (64, 128), (65, 138)])
@pytest.mark.parametrize("brings", [False, True])
def test_a_text_in_parts(cuts: tuple[int, ...], brings: bool) -> None:
    case = replace(IN_PARTS, initial=(brings,))
    examine_in_parts(case, cuts, seed_of(case), device()).require()
