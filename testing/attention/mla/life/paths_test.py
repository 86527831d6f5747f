"""Absorbed and unabsorbed, in one call or in several: MLA has one answer."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import layers.quantization.fp8
import layers.quantization.w8a8_fp8
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
from testing.attention.mla import cases
from testing.attention.mla.call import Call, random_call
from testing.attention.mla.examine import arithmetic_of, rows_of, seed_of
from testing.attention.mla.layer import LoadedMla, MlaCase, build, heads_of
from testing.attention.mla.methods import QUANTISED, UNQUANTISED
from testing.harness.attention.excess import check_excess
from testing.harness.device import device
from testing.harness.linear import Method
from testing.harness.verdict import Verdict
from testing.oracles.arrays import Float64
from testing.oracles.attention.mla.mla import attend
from testing.oracles.attention.mla.noise import mla_noise
from testing.oracles.rounding import ulp

WHOLE = MlaCase("extend", (40,), (40,), page_size=16, order="descending")
METHODS = [UNQUANTISED, *QUANTISED]


def answer(loaded: LoadedMla, call: Call) -> tuple[bool, Float64]:
    inputs = call.inputs(loaded.layer.device)
    unabsorbed = loaded.layer.is_unabsorbed(inputs.cache, inputs.metadata)
    return unabsorbed, heads_of(inputs.forward(loaded.layer), loaded.case)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.format.name)
def test_both_paths_give_the_answer_that_is_theirs(method: Method) -> None:
    # The same weights and inputs. Unquantised they are to agree within both error models; a
    # quantised kv_b_proj adds to one of them what quantising kv_c does, and nothing else.
    case = replace(cases.PROMPTS, method=method)
    rng = np.random.default_rng(seed_of(case))
    checkpoint = case.checkpoint(rng)
    call = random_call(case, checkpoint, rng)
    outputs, bounds, exact = [], [], []
    for path in ("auto", "absorbed"):
        loaded = build(replace(case, path=path), checkpoint, device())
        unabsorbed, output = answer(loaded, call)
        assert unabsorbed == (path == "auto")
        rows = rows_of(call, output, arithmetic_of(loaded, call, not unabsorbed))
        check = check_excess(rows, path)
        Verdict(f"{case.subject}, {path}").add(check.findings).require()
        outputs.append(output)
        bounds.append(rows.noise.bound + ulp(rows.exact, case.kind))
        exact.append(rows.exact)
    apart = np.abs((outputs[0] - exact[0]) - (outputs[1] - exact[1]))
    assert (apart <= sum(bounds)).all()
    same = np.array_equal(exact[0], exact[1])
    assert same == (method is UNQUANTISED)
    # What quantising does is small: a step is 1/127 or 1/16 of a latent, and half an ulp of W.
    assert np.abs(exact[0] - exact[1]).max() < 0.1 * np.abs(exact[0]).max()


@pytest.mark.parametrize("path", ["auto", "absorbed"])
@pytest.mark.parametrize("cuts", [(15,), (16,), (17,), (1, 16, 33), (31, 32)])
def test_a_prompt_in_parts_is_the_whole_prompt(cuts: tuple[int, ...], path: str) -> None:
    case = replace(WHOLE, path=path)
    rng = np.random.default_rng(seed_of(case))
    checkpoint = case.checkpoint(rng)
    whole = random_call(case, checkpoint, rng)
    loaded = build(case, checkpoint, device())
    cache = whole.inputs(device()).cache
    outputs, noises = [], []
    ends = [*cuts, *range(cuts[-1] + 1, 41)]
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        mode = "extend" if end <= cuts[-1] else "decode"
        part = replace(case, mode=mode, query_lens=(end - start,), kv_lens=(end,))
        inputs = replace(part_of(whole, part, start, end).inputs(device()), cache=cache)
        absorbed = not loaded.layer.is_unabsorbed(cache, inputs.metadata)
        assert absorbed == (start > 0 or path == "absorbed")
        outputs.append(heads_of(inputs.forward(loaded.layer), case))
        piece = replace(loaded, case=part)
        noise = mla_noise(whole.exact, arithmetic_of(piece, whole, absorbed))
        noises.append((noise, slice(start, end)))
    exact = attend(whole.exact)
    bound = np.concatenate([noise.bound[rows] for noise, rows in noises])
    error = np.abs(np.concatenate(outputs) - exact)
    assert (error <= bound + ulp(exact, case.kind) / 2).all()


def part_of(whole: Call, case: MlaCase, start: int, end: int) -> Call:
    """Tokens start to end of a call, as a call of its own."""
    exact, part = whole.exact, slice(start, end)
    paged = replace(exact.paged, query_lens=case.query_lens, kv_lens=case.kv_lens)
    fields = {name: getattr(exact, name)[part] for name in ("q", "latent", "k_pe", "positions")}
    plan = replace(whole.plan, lengths=case.kv_lens)
    rows = [row[:end] for row in whole.rows]
    return Call(case, plan, rows, replace(exact, paged=paged, **fields))


def test_requests_do_not_see_each_other() -> None:
    case = cases.MIXED
    rng = np.random.default_rng(seed_of(case))
    checkpoint = case.checkpoint(rng)
    call = random_call(case, checkpoint, rng)
    loaded = build(case, checkpoint, device())
    inputs = call.inputs(device())
    together = inputs.forward(loaded.layer)
    other = call.inputs(device())
    first = case.query_lens[0]
    other.q[:first] = -other.q[:first]
    other.kv_c[:first] *= 2
    again = other.forward(loaded.layer)
    assert torch.equal(together[first:], again[first:])
    assert not torch.equal(together[:first], again[:first])
