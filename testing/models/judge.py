"""Whether a model is off by no more than roundings explain.

The length of a row's error, its logarithm, is compared with those of `truth.DRAWS` evaluations of
the reference with random roundings: if they were normal with unknown mean and deviation, a right
implementation's next one would exceed mean + t·s·sqrt(1 + 1/n) with t Student's quantile of n - 1
degrees of freedom. Rows and their sum are tested at `FALSE_ALARMS` in all, by Bonferroni; that the
logarithms are normal enough was seen in 2,100 evaluations of the three models, none of which was
refused; `judge_test` has some of them.

Experts must be exactly those that a router's own logits say, by the definition in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from scipy import stats

from testing.models.batch import Seen
from testing.models.truth import Truth, gates_of
from testing.oracles.models.decoder import ReferenceModel
from testing.oracles.models.experts import Gate

FALSE_ALARMS = 1e-6


def problems_of(
    seen: Seen, truth: Truth, reference: ReferenceModel, of_draft: bool = False
) -> list[str]:
    """What is wrong with a batch's logits, hidden states, routers and choices; a sentence each."""
    right, errors = truth.right, truth.errors
    found = excess("logits", seen.logits, right.logits, [e.logits for e in errors])
    found += excess("hidden states", seen.hidden, right.hidden, [e.hidden for e in errors])
    gates = gates_of(reference, of_draft)
    for index, gate in enumerate(gates):
        logits = [e.router_logits[index] for e in errors]
        name = f"router {index}"
        found += excess(name, seen.router_logits[index], right.router_logits[index], logits)
        found += wrong_choices(name, seen.router_logits[index], seen.experts[index], gate)
    return found


def excess(
    name: str, got: torch.Tensor, right: torch.Tensor, errors: Sequence[torch.Tensor]
) -> list[str]:
    """Rows (tokens, …) whose error is longer than roundings explain, and whether all together are.

    A sentence where there is one, else none.
    """
    if got.shape != right.shape:
        return [f"{name} are {tuple(got.shape)}, wanted {tuple(right.shape)}"]
    if not torch.isfinite(got).all():
        rows = (~torch.isfinite(got)).any(dim=1).nonzero().flatten().tolist()
        return [f"{name} are not finite in rows {rows}"]
    seen = _lengths(got.double() - right)
    drawn = torch.stack([_lengths(error) for error in errors])
    count = len(drawn)
    quantile = float(stats.t.ppf(1 - FALSE_ALARMS / len(seen), count - 1))
    reach = quantile * drawn.std(dim=0) * math.sqrt(1 + 1 / count)
    over = (seen - drawn.mean(dim=0) - reach) > 0
    if not over.any():
        return []
    ratio = ((seen - drawn.mean(dim=0)) / 2).exp()
    worst = int(ratio.argmax())
    return [
        f"{name}: {int(over.sum())} of {len(seen)} errors are longer than roundings explain, the "
        f"worst of row {worst} by {float(ratio[worst]):.3g}, all together (the last row) by "
        f"{float(ratio[-1]):.3g}; longer are {over.nonzero().flatten().tolist()[:20]}"
    ]


def wrong_choices(
    name: str, logits: torch.Tensor, experts: torch.Tensor, gate: torch.nn.Module
) -> list[str]:
    """Tokens whose experts (tokens, k) are not those that their logits (tokens, E) say."""
    scores = torch.sigmoid(logits.double()) if isinstance(gate, Gate) else logits.double()
    wanted = gate.choose(scores).sort(dim=1).values
    wrong = (wanted != experts.sort(dim=1).values).any(dim=1).nonzero().flatten().tolist()
    if not wrong:
        return []
    first = wrong[0]
    return [
        f"{name}: {len(wrong)} tokens went to other experts than their logits say, token {first} "
        f"to {experts[first].tolist()}, wanted {wanted[first].tolist()}"
    ]


def _lengths(error: torch.Tensor) -> torch.Tensor:
    """(tokens, …) -> (tokens + 1,): the logarithm of each row's square, and of all rows'."""
    squares = error.pow(2).sum(dim=1)
    return torch.cat((squares, squares.sum()[None])).clamp(min=1e-300).log()
