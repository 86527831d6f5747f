"""Wrong attentions that a layer may compute in place of the right one, each by the oracle."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from testing.oracles.arrays import Float64, Mask
from testing.oracles.attention.dense import Request, Rule, attend
from testing.oracles.attention.masks import causal, chain, drafts, in_window

Suspect = tuple[str, Float64]
"""A sentence that goes on from "this is what one gets where …", and the output (S, Hq, Dv)."""


def suspects(request: Request, rule: Rule, scales: tuple[float, float] | None) -> Iterator[Suspect]:
    """Each wrong attention that differs from the right one for this request.

    scales: of an fp8 cache's k and v.
    """
    for name, seen in _masks(request, rule):
        if rule.sinks is not None or seen.any(axis=1).all():
            yield name, attend(request, rule, visible=seen).output
    yield from _rules(request, rule)
    if rule.kv_heads > 1:
        yield from _heads(request, rule)
    if scales is not None:
        yield from _scales(request, rule, scales)
    if request.length > 1:
        yield "two halves of the keys are merged without their weights", _halves(request, rule)


def _windowed(seen: Mask, request: Request, window: int | None) -> Mask:
    if window is None:
        return seen
    return seen & in_window(request.query_positions(), request.key_positions(), window)


def _masks(request: Request, rule: Rule) -> Iterator[tuple[str, Mask]]:
    queries, length, tree = request.queries, request.length, request.tree
    right = request.visible(rule.window)
    yield "the request's last key is not seen", right & (np.arange(length) < length - 1)
    if tree is None:
        ahead = np.arange(length) <= length - queries + 1 + np.arange(queries)[:, None]
        yield "a query sees one key ahead of itself", _windowed(ahead, request, rule.window)
        all_seen: Mask = np.ones((queries, length), bool)
        yield "the mask is not causal", _windowed(all_seen, request, rule.window)
        behind = causal(queries, length) & ~_own(queries, length)
        yield "a query does not see its own key", _windowed(behind, request, rule.window)
    else:
        wrong = {
            "the drafts' mask is transposed": tree.T,
            "the drafts' mask is taken for a chain": chain(queries),
            "drafts see all drafts": np.ones_like(tree),
            "drafts see no draft but themselves": np.eye(queries, dtype=bool),
        }
        for name, other in wrong.items():
            yield name, _windowed(drafts(other, length), request, rule.window)
        no_prefix = right.copy()
        no_prefix[:, : length - queries] = False
        yield "drafts do not see the prefix", no_prefix
    if rule.window is not None:
        for step in (1, -1):
            window = rule.window + step
            if window > 0:
                yield f"the window is {window} in place of {rule.window}", request.visible(window)
        yield "there is no window", request.visible(None)
        if request.positions is not None:
            by_slot = replace(request, positions=None).visible(rule.window)
            yield "the window counts drafts by slot and not by position", by_slot


def _own(queries: int, length: int) -> Mask:
    return np.asarray(np.arange(length) == length - queries + np.arange(queries)[:, None])


def _rules(request: Request, rule: Rule) -> Iterator[Suspect]:
    wrong: dict[str, Rule] = {}
    if rule.soft_cap:
        wrong["the soft cap is missing"] = replace(rule, soft_cap=0.0)
        # cap·tanh(x / cap)·scaling is (cap·scaling)·tanh(x·scaling / (cap·scaling)).
        before = replace(rule, soft_cap=rule.soft_cap * rule.scaling)
        wrong["the soft cap comes before the scaling"] = before
    if rule.sinks is not None:
        wrong["the sinks are missing"] = replace(rule, sinks=None)
        wrong["the sinks are counted twice"] = replace(rule, sinks=rule.sinks + np.log(2))
        wrong["the sinks are scaled"] = replace(rule, sinks=rule.sinks * rule.scaling)
        wrong["the sinks are another head's"] = replace(rule, sinks=np.roll(rule.sinks, 1))
    wrong["the scaling is missing"] = replace(rule, scaling=1.0)
    wrong["the scaling is applied twice"] = replace(rule, scaling=rule.scaling**2)
    for name, other in wrong.items():
        if other.sinks is not None or request.visible(rule.window).any(axis=1).all():
            yield name, attend(request, other).output


def _heads(request: Request, rule: Rule) -> Iterator[Suspect]:
    heads, right = np.arange(rule.heads), rule.kv_head_of()
    yield (
        "query heads take key-value heads in turn",
        attend(request, rule, kv_head_of=heads % rule.kv_heads).output,
    )
    for step in (1, -1):
        other = (right + step) % rule.kv_heads
        name = "the next" if step == 1 else "the previous"
        yield f"k and v are {name} kv head's", attend(request, rule, kv_head_of=other).output
        values = replace(request, v=np.roll(request.v, -step, axis=1))
        yield f"v is {name} kv head's", attend(values, rule).output


def _scales(request: Request, rule: Rule, scales: tuple[float, float]) -> Iterator[Suspect]:
    k_scale, v_scale = (float(np.float32(s)) for s in scales)
    factors = {
        "k_scale is ignored": (1 / k_scale, 1.0),
        "v_scale is ignored": (1.0, 1 / v_scale),
        "both scales of the cache are ignored": (1 / k_scale, 1 / v_scale),
        "k_scale and v_scale are swapped": (v_scale / k_scale, k_scale / v_scale),
        "k_scale is applied twice": (k_scale, 1.0),
        "v_scale is applied twice": (1.0, v_scale),
    }
    for name, (k, v) in factors.items():
        yield name, attend(replace(request, k=request.k * k, v=request.v * v), rule).output


def _halves(request: Request, rule: Rule) -> Float64:
    """The mean of both halves' outputs, each normalised by itself."""
    right = attend(request, rule)
    half = request.length // 2
    outputs = []
    for part in (slice(0, half), slice(half, None)):
        weights = right.weights[..., part]
        total = np.maximum(weights.sum(axis=2, keepdims=True), np.finfo(float).tiny)
        outputs.append(weights / total @ right.v[:, part])
    return np.asarray((outputs[0] + outputs[1]).transpose(1, 0, 2) / 2)
