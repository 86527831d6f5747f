"""Layers of any backend that are told something wrong: their own kernels run, and it is named.

Faults of `faults_test` alter the steps of plain torch. Here nothing is altered: the layer, its
pages or its masks are others than the oracle is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from testing.harness.attention.case import (
    TREE,
    AttentionCase,
    Batch,
    Call,
    make_batch,
    on_backend,
    prefixes,
)
from testing.harness.attention.examine import judge
from testing.harness.attention.layer import ask, build
from testing.harness.device import device, pool
from testing.oracles.arrays import Float64

EXTEND = Call("extend", ((1, 15), (14, 17), (33, 15)))
DECODE = Call("decode", prefixes([1, 15, 47, 90]))
DRAFT = Call("draft", prefixes([3, 16, 60], 7), TREE)
PLAIN = AttentionCase(16, 2, 64)
WINDOW = replace(PLAIN, window=13)


@dataclass(frozen=True)
class Told:
    """What the layer is told in place of `case` and of the batch, and what is said of it."""

    case: AttentionCase
    call: Call
    says: str
    layer: Callable[[AttentionCase], AttentionCase] = lambda case: case
    batch: Callable[[Batch], Batch] = lambda batch: batch
    family: str = "reading"


def transposed(batch: Batch) -> Batch:
    """The drafts' mask with rows for columns."""

    class Turned(Call):
        def tree(self, request: int = 0) -> np.ndarray | None:
            tree = super().tree(request)
            return None if tree is None else tree.T

    call = batch.call
    return replace(batch, call=Turned(call.mode, call.requests, call.parents, split=call.split))


def other_page(batch: Batch) -> Batch:
    """Page 1 of request 3 holds what page 0 of request 1 does."""
    raw = list(batch.raw)
    raw[3] = (raw[3][0].copy(), raw[3][1].copy())
    for mine, its in zip(raw[3], raw[1], strict=True):
        mine[16:32] = its[:16]
    return replace(batch, raw=raw)


def one_key_short(batch: Batch) -> Batch:
    """Request 1 is one key shorter: what was its last but one key is replaced by its last."""
    requests = list(batch.call.requests)
    requests[1] = (requests[1][0] - 1, 1)
    raw = list(batch.raw)
    raw[1] = tuple(np.delete(x, -2, axis=0) for x in raw[1])
    plan = replace(batch.plan, lengths=tuple(prefix + new for prefix, new in requests))
    return replace(batch, call=replace(batch.call, requests=tuple(requests)), plan=plan, raw=raw)


FAULTS = {
    "scaling": Told(
        PLAIN,
        EXTEND,
        "the scaling is 1.0",
        lambda c: replace(c, scaling=0.125 * 1.03),
    ),
    "cap": Told(
        replace(PLAIN, soft_cap=5.0),
        DECODE,
        "the soft cap is missing",
        lambda c: replace(c, soft_cap=0.0),
    ),
    "larger window": Told(
        WINDOW, EXTEND, "the window is 14 in place of 13", lambda c: replace(c, window=14)
    ),
    "smaller window": Told(
        WINDOW, DECODE, "the window is 12 in place of 13", lambda c: replace(c, window=12)
    ),
    "no window": Told(WINDOW, DECODE, "there is no window", lambda c: replace(c, window=None)),
    "sinks": Told(
        replace(PLAIN, sinks=True),
        DECODE,
        "the sinks are missing",
        lambda c: replace(c, sinks=False),
    ),
    "tree": Told(PLAIN, DRAFT, "the drafts' mask is transposed", batch=transposed),
    "chain": Told(
        WINDOW,
        DRAFT,
        "the drafts' mask is taken for a chain",
        batch=lambda b: replace(b, call=replace(b.call, parents=tuple(range(-1, 6)))),
    ),
    "page": Told(PLAIN, DECODE, "keys 16..31 of request 3, its page 1", batch=other_page),
    "length": Told(PLAIN, DECODE, "request 1, ", batch=one_key_short, family="element"),
}
BACKENDS = ["torch"] if pool() == "cpu" else ["triton"]


def output_of(
    told: Told, backend: str, rng: np.random.Generator
) -> tuple[Batch, Float64 | None, Float64]:
    case = on_backend(told.case, backend)
    sinks = case.random_sinks(np.random.default_rng(7))
    loaded = build(told.layer(case), np.random.default_rng(7), device())
    right = make_batch(case, told.call, rng)
    return right, sinks, ask(loaded, replace(told.batch(right), case=loaded.case)).output


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FAULTS)
def test_what_a_layer_was_told_wrongly_is_named(name: str, backend: str) -> None:
    told = FAULTS[name]
    right, sinks, output = output_of(told, backend, np.random.default_rng(8))
    verdict = judge(right, sinks, output)
    assert any(
        f.family == told.family and f.place.startswith(told.says) for f in verdict.findings
    ), f"'{told.says}' is not named: {verdict}"
