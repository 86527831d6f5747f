"""The judge finds nothing in evaluations with roundings, and twice as much at once."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from testing.models.batch import Seen, token_ids
from testing.models.folders import random_tensors, reference_of
from testing.models.judge import excess, problems_of
from testing.models.truth import Arithmetic, Truth, Values, gates_of, truth_of, values_of
from testing.oracles.models.configs import ALL, DEEPSEEK
from testing.oracles.models.decoder import ReferenceModel

EVALUATIONS = 20


class Case:
    """A reference model and what it would choose."""

    def __init__(self, config: dict[str, Any], arithmetic: Arithmetic) -> None:
        self.reference: ReferenceModel = reference_of(config, random_tensors(config))
        self.ids = token_ids(config["vocab_size"])
        self.arithmetic = arithmetic
        self.experts: list[torch.Tensor] = []
        self.experts = self._chosen()
        self.truth: Truth = truth_of(self.reference, self.ids, self.experts, arithmetic)

    def _chosen(self) -> list[torch.Tensor]:
        """Layer by layer, as what a layer chooses decides what the next one sees."""
        gates = gates_of(self.reference)
        kept: list[list[torch.Tensor]] = [[] for _ in gates]
        hooks = [
            gate.register_forward_hook(lambda _m, _i, out, k=k: k.append(out[1]))
            for gate, k in zip(gates, kept, strict=True)
        ]
        for tokens in self.ids:
            self.reference.hidden(tokens[None])
        for hook in hooks:
            hook.remove()
        return [torch.cat(parts) for parts in kept]

    def evaluated(self, seed: int) -> Values:
        return values_of(self.reference, self.ids, self.experts, self.arithmetic, seed)


@cache
def case(index: int, ranks: int = 1) -> Case:
    return Case(ALL[index], Arithmetic(in_kernels=True, ranks=ranks))


@pytest.mark.parametrize("index", range(3), ids=lambda i: ALL[i]["architectures"][0])
def test_nothing_is_found_in_evaluations_with_roundings(index: int) -> None:
    examined = case(index)
    found = []
    for seed in range(1000, 1000 + EVALUATIONS):
        values = examined.evaluated(seed)
        pairs = [
            ("logits", values.logits, "logits"),
            ("hidden", values.hidden, "hidden"),
        ]
        for name, got, field in pairs:
            right = getattr(examined.truth.right, field)
            errors = [getattr(e, field) for e in examined.truth.errors]
            found += excess(name, got, right, errors)
    assert found == []


def test_twice_the_roundings_are_found() -> None:
    examined = case(0)
    right = examined.truth.right.logits
    errors = [e.logits for e in examined.truth.errors]
    got = right + 2 * (examined.evaluated(1000).logits - right)
    assert "all together (the last row) by 2" in excess("logits", got, right, errors)[0]


def test_one_wrong_row_is_found() -> None:
    examined = case(0)
    right = examined.truth.right.logits
    got = examined.evaluated(1000).logits.clone()
    got[7] += 0.1 * right[7].norm() / right.shape[1] ** 0.5
    (sentence,) = excess("logits", got, right, [e.logits for e in examined.truth.errors])
    assert "the worst of row 7 " in sentence


def test_what_is_not_finite_or_of_another_shape_is_found() -> None:
    examined = case(0)
    right, errors = examined.truth.right.logits, [e.logits for e in examined.truth.errors]
    got = right.clone()
    got[3, 5] = torch.nan
    assert excess("logits", got, right, errors) == ["logits are not finite in rows [3]"]
    assert excess("logits", right[1:], right, errors) == ["logits are (56, 192), wanted (57, 192)"]


def test_a_choice_that_the_logits_do_not_say_is_found() -> None:
    examined = case(list(ALL).index(DEEPSEEK))
    values = examined.evaluated(1000)
    chosen = [
        gate.choose(torch.sigmoid(logits))
        for gate, logits in zip(gates_of(examined.reference), values.router_logits, strict=True)
    ]
    seen = Seen(values.logits, values.hidden, values.router_logits, chosen)
    assert problems_of(seen, examined.truth, examined.reference) == []
    other = chosen[0].clone()
    other[4, 0] = next(e for e in range(8) if e not in other[4].tolist())
    (sentence,) = problems_of(replace(seen, experts=[other]), examined.truth, examined.reference)
    assert "router 0: 1 tokens went to other experts than their logits say, token 4" in sentence
