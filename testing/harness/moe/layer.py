"""Build a real fused MoE layer from a checkpoint, as a model does, and hand it numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from layers.moe.layer import FusedMoE
from layers.moe.topk import TopKConfig
from layers.quantization.base import QuantizationConfig
from layers.quantization.registry import get_quantization_config
from layers.weights import load_weights, process_weights_after_loading
from testing.harness import backend_table
from testing.harness.memory import padded_view, poisoned_memory
from testing.harness.moe.names import Named, named_tensors
from testing.harness.tensors import DTYPES, KINDS, floats_to_torch, to_numpy
from testing.harness.verdict import Finding
from testing.oracles.arrays import Float64
from testing.oracles.error_model.accumulators import FP32, Accumulator
from testing.oracles.formats import LinearFormat
from testing.oracles.moe.checkpoints import MoeCheckpoint, moe_checkpoint
from testing.oracles.moe.propagation import Arithmetic
from testing.oracles.moe.routing import Routing
from testing.oracles.rounding import FloatType

PREFIX = "model.layers.0.mlp.experts"
TOP_2 = Routing(2)


@dataclass(frozen=True)
class MoeMethod:
    """A quantisation method as a checkpoint's config.json names it.

    format: what one expert's tensors mean; x and h are quantised as it says.
    config: of config.json; None: unquantised.
    rounds: for backends that round more than h and the output, what they round.
    accumulators: how a backend adds products up, if not in fp32.
    """

    format: LinearFormat
    config: Mapping[str, object] | None
    rounds: Mapping[str, Callable[[FloatType], Arithmetic]] = field(default_factory=dict)
    accumulators: Mapping[str, Accumulator] = field(default_factory=dict)


@dataclass(frozen=True)
class MoeCase:
    """One layer to build.

    tokens, experts, hidden, intermediate: T, E (routed), H, I.
    routing: the router's rule.
    naming: what the checkpoint calls its tensors: see `testing.harness.moe.names`.
    with_correction: the router has a correction bias.
    backend: runner asked for; None leaves the choice to the layer.
    thorough: ask all probes; else only what needs no more than a few forwards of T tokens.
    options: further keywords of the layer.
    """

    method: MoeMethod
    tokens: int
    experts: int
    hidden: int
    intermediate: int
    routing: Routing = TOP_2
    dtype: str = "bfloat16"
    activation: str = "silu"
    bias: bool = False
    naming: str = "deepseek"
    with_correction: bool = False
    backend: str | None = None
    thorough: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> FloatType:
        """The float type of x, h and the output."""
        return KINDS[self.dtype]

    @property
    def shape(self) -> str:
        """`T 32 E 8 H 256 I 256 top 2`."""
        return (
            f"T {self.tokens} E {self.experts} H {self.hidden} I {self.intermediate} "
            f"top {self.routing.top_k}"
        )

    @property
    def subject(self) -> str:
        """The layer as messages name it."""
        flags = ", bias" * self.bias + f", {self.naming} names, {self.activation}"
        return (
            f"{self.method.format.name} MoE layer ({self.backend or 'default'}, {self.dtype}, "
            f"{self.shape}{flags})"
        )

    @property
    def arithmetic(self) -> Arithmetic:
        """What the runner rounds."""
        backend = self.backend or ""
        rounds = self.method.rounds.get(backend, Arithmetic)
        return replace(rounds(self.kind), accumulator=self.accumulator)

    @property
    def accumulator(self) -> Accumulator:
        """How the runner adds products up."""
        return self.method.accumulators.get(self.backend or "", FP32)

    def checkpoint(self, rng: np.random.Generator) -> MoeCheckpoint:
        """A random checkpoint for this layer."""
        return moe_checkpoint(
            rng,
            self.method.format,
            self.experts + self.routing.shared,
            self.hidden,
            self.intermediate,
            self.activation,
            self.bias,
        )

    def correction(self) -> Float64 | None:
        """(E,) sixteenths up to 3/16: they change a choice, but not one between 0 and 1."""
        if not self.with_correction:
            return None
        return np.random.default_rng(self.experts).integers(-3, 4, self.experts) / 16.0


@dataclass(frozen=True)
class Question:
    """x (T, H), exact in the layer's dtype, and router logits (T, E), exact in float32.

    padded: x is a window into NaN.
    """

    x: Float64
    logits: Float64
    padded: bool = False


@dataclass(frozen=True)
class Answers:
    """Outputs (T, H), one a question, and findings of memory changed that a caller holds."""

    outputs: list[Float64]
    findings: list[Finding]


@dataclass
class LoadedMoe:
    """A layer that is ready, taking and giving float64 arrays; memory that it takes is poisoned.

    backends: kernels that it chose, by operation.
    """

    case: MoeCase
    layer: FusedMoE
    backends: dict[str, str] = field(default_factory=dict)

    @property
    def device_name(self) -> str:
        """`cpu`, or the GPU's product name."""
        device = self.layer.device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"

    @property
    def is_staged(self) -> bool:
        """Whether stages can be watched; else one kernel does everything."""
        return self.layer.quant_method.run is None

    def __call__(self, x: Float64, logits: Float64) -> Float64:
        """x (T, H), logits (T, E) → (T, H)."""
        return self.answer([Question(x, logits)]).outputs[0]

    def answer(self, questions: Sequence[Question]) -> Answers:
        """Every question in turn; each input and each earlier output is kept and looked at."""
        inputs = [self._tensors(question) for question in questions]
        with poisoned_memory():
            held = []
            for x, logits in inputs:
                output = self.layer(x, logits)
                held.append((output, to_numpy(output)))
        outputs = [seen for _, seen in held]
        findings = _changes("x", "the layer", [q.x for q in questions], [x for x, _ in inputs])
        findings += _changes(
            "router logits", "the layer", [q.logits for q in questions], [g for _, g in inputs]
        )
        findings += _changes("output", "a later call", outputs, [output for output, _ in held])
        return Answers(outputs, findings)

    def _tensors(self, question: Question) -> tuple[torch.Tensor, torch.Tensor]:
        x = floats_to_torch(question.x, DTYPES[self.case.dtype], self.layer.device)
        logits = floats_to_torch(question.logits, torch.float32, self.layer.device)
        return (padded_view(x), padded_view(logits)) if question.padded else (x, logits)


def _changes(
    place: str, by: str, before: Sequence[Float64], after: Sequence[torch.Tensor]
) -> list[Finding]:
    changed = [
        i
        for i, (old, tensor) in enumerate(zip(before, after, strict=True))
        if not np.array_equal(old, to_numpy(tensor), equal_nan=True)
    ]
    if not changed:
        return []
    message = f"{place} of {len(changed)} of {len(before)} calls was changed by {by}"
    return [Finding("memory", "memory", place, f"{message}, first of call {changed[0]}")]


def quant_config(case: MoeCase) -> QuantizationConfig | None:
    """The config object that the checkpoint's config.json leads to."""
    if case.method.config is None:
        return None
    config = dict(case.method.config)
    method = get_quantization_config(str(config["quant_method"]))
    return method.from_config(config, backend=case.backend)


def topk_config(routing: Routing) -> TopKConfig:
    """The layer's words for a router's rule."""
    return TopKConfig(
        top_k=routing.top_k,
        scoring_func=routing.scoring,
        renormalize=routing.renormalise,
        num_expert_group=routing.groups,
        topk_group=routing.kept_groups,
        routed_scaling_factor=routing.factor,
        num_shared_experts=routing.shared,
    )


def new_layer(case: MoeCase, device: torch.device | str) -> FusedMoE:
    """The layer as a model constructs it, with no weights yet."""
    bias = case.correction()
    return FusedMoE(
        case.experts,
        case.hidden,
        case.intermediate,
        topk=topk_config(case.routing),
        params_dtype=DTYPES[case.dtype],
        quant_config=quant_config(case),
        prefix=PREFIX,
        activation=case.activation,
        has_bias=case.bias,
        correction_bias=None if bias is None else floats_to_torch(bias, torch.float32, device),
        device=device,
        backend=case.backend,
        **case.options,
    )


def model_of(layer: torch.nn.Module) -> torch.nn.Module:
    """A model that holds the layer at its prefix and nothing else."""
    root = module = torch.nn.Module()
    *parents, leaf = PREFIX.split(".")
    for name in parents:
        child = torch.nn.Module()
        module.add_module(name, child)
        module = child
    module.add_module(leaf, layer)
    return root


def checkpoint_tensors(case: MoeCase, checkpoint: MoeCheckpoint) -> Iterator[Named]:
    """The checkpoint as a file holds it: ('model.layers.0.mlp.experts.3.w1.weight', tensor) …"""
    return named_tensors(PREFIX, case.naming, checkpoint, DTYPES[case.dtype])


def build(
    case: MoeCase,
    checkpoint: MoeCheckpoint,
    device: torch.device | str,
    change: Callable[[Iterator[Named]], Iterator[Named]] = lambda tensors: tensors,
) -> LoadedMoe:
    """Construct, load and post-process the layer, in poisoned memory.

    change: alters the checkpoint on its way in, to see whether the checks notice.

    Raises:
        WeightLoadError, BackendUnavailable, ValueError: as the layer does.
    """
    with poisoned_memory():
        layer = new_layer(case, device)
        model = model_of(layer)
        load_weights(model, change(checkpoint_tensors(case, checkpoint)))
        process_weights_after_loading(model)
    backends = dict(layer.quant_method.backends)
    backend_table.count_run(backends)
    return LoadedMoe(case, layer, backends)
