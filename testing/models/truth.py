"""What a model should say of a batch, and how far a right implementation may be off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch

from testing.models.batch import FIRST, Seen
from testing.oracles.codecs import e4m3
from testing.oracles.models.decoder import ReferenceModel
from testing.oracles.models.deepseek import DeepseekV3, LatentAttention
from testing.oracles.models.experts import Gate
from testing.oracles.models.gpt_oss import Router
from testing.oracles.models.noise import Quantise, cached, quantised, rounded

DRAWS = 24


@dataclass(frozen=True)
class Arithmetic:
    """How an implementation computes, beyond what the model defines.

    dtype: of what it stores.
    in_kernels: it runs on a GPU, whose kernels round softmax's weights.
    ranks: of the tensor parallel group.
    in_chunks: prompts come in two chunks, so that latent attention is absorbed from the second on.
    quantise: what becomes of the inputs of quantised layers; None where nothing does.
    has_codes: caches hold e4m3 codes, and latent attention is absorbed from the first token on.
    cache_scales: of codes, by the name of the reference's `Cached`; 1 where there is none.
    """

    dtype: torch.dtype = torch.bfloat16
    in_kernels: bool = False
    ranks: int = 1
    in_chunks: bool = True
    quantise: Quantise | None = None
    has_codes: bool = False
    cache_scales: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Values:
    """One evaluation of the reference: (tokens, …) of all requests, in order.

    logits, hidden: of every token; router_logits: of each layer with experts.
    """

    logits: torch.Tensor
    hidden: torch.Tensor
    router_logits: list[torch.Tensor] = field(default_factory=list)


def values_of(
    reference: ReferenceModel,
    ids: Sequence[torch.Tensor],
    experts: Sequence[torch.Tensor],
    arithmetic: Arithmetic,
    seed: int | None = None,
    draft_of: Sequence[torch.Tensor] | None = None,
) -> Values:
    """The reference's, without roundings or with those drawn from `seed`.

    experts: of each layer with experts the chosen ones, (tokens, k): a choice that roundings decide
        is no error, and what follows from it is compared by itself.
    draft_of: of each request hidden states (tokens - 1, hidden): the values are those that the
        draft module makes of them and of the tokens after them.
    """
    gates = gates_of(reference, draft_of is not None)
    made: list[Values] = []
    start = 0
    with ExitStack() as stack:
        if arithmetic.quantise is not None:
            stack.enter_context(quantised(reference, arithmetic.quantise))
        if arithmetic.has_codes:
            stack.enter_context(cached(reference, partial(_of_codes, arithmetic.cache_scales)))
        if seed is not None:
            in_kernels, ranks = arithmetic.in_kernels, arithmetic.ranks
            stack.enter_context(
                rounded(reference, arithmetic.dtype, seed, in_kernels=in_kernels, ranks=ranks)
            )
        for request, tokens in enumerate(ids):
            start_absorbed = FIRST[request] if arithmetic.in_chunks else None
            _absorb(reference, 0 if arithmetic.has_codes else start_absorbed)
            tokens = tokens if draft_of is None else tokens[1:]
            rows = slice(start, start + len(tokens))
            for gate, chosen in zip(gates, experts, strict=True):
                gate.forced = chosen[rows]
            with _logits_of(gates) as logits:
                if draft_of is None:
                    hidden = reference.hidden(tokens[None])
                else:
                    assert isinstance(reference, DeepseekV3)
                    hidden = reference.draft_hidden(tokens[None], draft_of[request][None])
            made.append(Values(reference.logits(hidden)[0], hidden[0], logits))
            start += len(tokens)
    for gate in gates:
        gate.forced = None
    return Values(
        torch.cat([v.logits for v in made]),
        torch.cat([v.hidden for v in made]),
        [torch.cat(parts) for parts in zip(*(v.router_logits for v in made), strict=True)],
    )


@dataclass
class Truth:
    """What is right, and by how much evaluations with roundings differ from it.

    right: without any rounding.
    errors: of evaluations with roundings, each of another seed.
    """

    right: Values
    errors: list[Values]

    def of(self, right: Values) -> Truth:
        """The same errors around other values: those of an altered reference."""
        return replace(self, right=right)


def truth_of(
    reference: ReferenceModel,
    ids: Sequence[torch.Tensor],
    experts: Sequence[torch.Tensor],
    arithmetic: Arithmetic,
    draft_of: Sequence[torch.Tensor] | None = None,
) -> Truth:
    """Of a batch in which those experts were chosen; arguments as of `values_of`."""
    right = values_of(reference, ids, experts, arithmetic, draft_of=draft_of)
    seeds = range(DRAWS)
    drawn = [values_of(reference, ids, experts, arithmetic, s, draft_of) for s in seeds]
    return Truth(right, [_difference(values, right) for values in drawn])


def _difference(values: Values, right: Values) -> Values:
    pairs = zip(values.router_logits, right.router_logits, strict=True)
    return Values(
        values.logits - right.logits, values.hidden - right.hidden, [a - b for a, b in pairs]
    )


def truth_for(
    reference: ReferenceModel, ids: Sequence[torch.Tensor], seen: Seen, arithmetic: Arithmetic
) -> Truth:
    """Of what was seen: the experts are those that it chose."""
    return truth_of(reference, ids, seen.experts, arithmetic)


def _of_codes(scales: Mapping[str, float], name: str, x: torch.Tensor) -> torch.Tensor:
    """e4m3 of x / scale, half to even, saturating, times scale; any shape."""
    scale = scales.get(name, 1.0)
    return torch.from_numpy(scale * np.asarray(e4m3.decode(e4m3.encode(x.numpy() / scale))))


def gates_of(reference: ReferenceModel, of_draft: bool = False) -> list[Gate | Router]:
    """Of the layers that `hidden` runs through, in order, or of those of the draft module."""
    depth, layers = reference.model.depth, list(reference.model.layers)
    layers = layers[depth:] if of_draft else layers[:depth]
    return [m for layer in layers for m in layer.modules() if isinstance(m, Gate | Router)]


def _absorb(reference: ReferenceModel, start: int | None) -> None:
    for module in reference.modules():
        if isinstance(module, LatentAttention):
            module.absorbed_from = start


@contextmanager
def _logits_of(gates: Sequence[Gate | Router]) -> Iterator[list[torch.Tensor]]:
    """Within it, gates leave their logits in a list."""
    logits: list[torch.Tensor] = []

    def keep(gate: Gate | Router, inputs: tuple[torch.Tensor]) -> None:
        made = inputs[0] @ gate.weight.t()
        logits.append(made + gate.bias if isinstance(gate, Router) else made)

    hooks = [gate.register_forward_pre_hook(keep) for gate in gates]
    try:
        yield logits
    finally:
        for hook in hooks:
            hook.remove()
