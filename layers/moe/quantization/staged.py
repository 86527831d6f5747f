"""MoE methods that work in stages, each a seam that can be watched: quantise, multiply, activate.

With T tokens, K choices a token, H hidden and I intermediate values; rows between the matmuls are
pairs of token and choice (`layers.kernels.moe.routing`):

    x (T, H) -> quantise_input -> multiply_w13 -> (T·K, 2I) float32 -> activate -> h (T·K, I)
      -> quantise_hidden -> multiply_w2 -> (T·K, H) float32 -> combine -> (T, H)

h is rounded to params_dtype once; the second matmul's result stays in float32 until the choices
are weighted and summed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from layers.kernels.capability import (
    Backend,
    Operation,
    Problem,
    select_backend,
    select_companion,
)
from layers.kernels.moe.activation import ACTIVATIONS
from layers.kernels.moe.combine import MOE_COMBINE
from layers.kernels.moe.grouped import GroupedMultiply
from layers.kernels.moe.routing import Routing
from layers.kernels.moe.sort_pairs import SORT_PAIRS, SortPairs, sort_torch
from layers.moe.quantization.base import MoEMethodBase, optional
from layers.moe.topk import TopKOutput
from layers.parameter import check_contiguous

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE

Quantise = Callable[..., tuple[torch.Tensor, torch.Tensor]]


class StagedMoEMethod(MoEMethodBase):
    """Subclasses name their operations and parameters; everything else is here.

    Attributes, set by post-load:
        quantise_input: x (T, H) -> codes (T, H), scales; None where x stays as it is.
        multiply_w13, multiply_w2: `layers.kernels.moe.grouped.GroupedMultiply`.
        activate: gate_up (T·K, 2I) float32 -> h (T·K, I) of params_dtype.
        quantise_hidden: h (T·K, I) -> codes, scales; None where h stays as it is.
        sort_pairs: a backend of `layers.kernels.moe.sort_pairs`, for the matmuls that sort.
        combine: (y (T·K, H) float32, weights (T, K) float32) -> (T, H) of params_dtype.
    """

    quantise_operation: Operation | None = None
    multiply_operation: Operation
    # Runners beyond the staged ones. `load` gives prepare(method, layer), which replaces parameters
    # as its kernel wants and sets `run`, or other stages; they come first if preferred.
    external_backends: tuple[Backend, ...] = ()
    prefers_external = False
    # The suffix of the weights' scale that the kernels read; None without one.
    scale_name: str | None = None

    quantise_input: Quantise | None = None
    multiply_w13: GroupedMultiply
    activate: Callable[[torch.Tensor], torch.Tensor]
    quantise_hidden: Quantise | None = None
    multiply_w2: GroupedMultiply
    combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    sort_pairs: SortPairs = staticmethod(sort_torch)

    def process_weights_after_loading(self, layer: FusedMoE) -> None:
        """Chooses the matmuls' backend, and for other stages the same if it can, and folds.

        Raises:
            BackendUnavailable: the backend asked for cannot run these shapes on this device.
            ValueError: a parameter that is not contiguous, which the kernels take for granted.
        """
        check_contiguous(layer)
        device = layer.get_parameter("w13_weight").device
        first, second = self._problems(layer)
        # What may be refused comes before anything is replaced.
        chosen = self._choose(device, (first, second))
        self.backends = {self.multiply_operation.name: chosen.name}
        self.fold(layer)
        if chosen in self.external_backends:
            chosen.load()(self, layer)
            return
        self.multiply_w13 = self.multiply_w2 = chosen.load()

        def companion(operation: Operation) -> Callable[..., Any]:
            backend = select_companion(operation, device, first, chosen.name)
            self.backends[operation.name] = backend.name
            return backend.load()

        self.activate = partial(companion(ACTIVATIONS[layer.activation]), dtype=layer.params_dtype)
        self.combine = partial(companion(MOE_COMBINE), dtype=layer.params_dtype)
        self.sort_pairs = companion(SORT_PAIRS)
        self.set_quantisers(layer, companion)

    def fold(self, layer: FusedMoE) -> None:
        """Brings parameters into the layout that every runner reads; nothing by default.

        Raises:
            ValueError: a scale that no runner can use, before any parameter is replaced.
        """

    def set_quantisers(
        self, layer: FusedMoE, companion: Callable[[Operation], Callable[..., Any]]
    ) -> None:
        """Sets `quantise_input` and `quantise_hidden`; `companion` chooses a backend."""
        if self.quantise_operation is not None:
            self.quantise_input = self.quantise_hidden = companion(self.quantise_operation)

    def _problems(self, layer: FusedMoE) -> tuple[Problem, Problem]:
        hidden, intermediate = layer.experts.hidden_size, layer.experts.intermediate_size
        dtype, bias = layer.params_dtype, layer.has_bias
        return (
            Problem(dtype, hidden, 2 * intermediate, bias=bias),
            Problem(dtype, intermediate, hidden, bias=bias),
        )

    def _choose(self, device: torch.device, problems: tuple[Problem, Problem]) -> Backend:
        """The runner asked for, or the first that can do both matmuls."""
        staged, external = self.multiply_operation.backends, self.external_backends
        backends = (*external, *staged) if self.prefers_external else (*staged, *external)
        operation = Operation(self.multiply_operation.name, backends)
        for problem in problems:
            # Refuses what was asked for, with the reason.
            select_backend(operation, device, problem, self.backend)
        fits = tuple(b for b in backends if not any(b.needs.unmet(device, p) for p in problems))
        return select_backend(Operation(operation.name, fits), device, problems[0], self.backend)

    def apply(self, layer: FusedMoE, x: torch.Tensor, topk: TopKOutput) -> torch.Tensor:
        """x (T, H) of params_dtype, T > 0 -> this rank's part of the output, (T, H)."""
        if self.run is not None:
            return self.run(layer, x, topk)
        routing = Routing.of(topk.ids, layer.experts.experts, self.sort_pairs)
        codes, scales = self.quantise_input(x) if self.quantise_input else (x, None)
        gate_up = self.multiply_w13(codes, scales, *self._tensors(layer, "w13"), routing)
        h = self.activate(gate_up)
        codes, scales = self._quantise_hidden(h, routing)
        y = self.multiply_w2(codes, scales, *self._tensors(layer, "w2"), routing)
        return self.combine(y, topk.weights)

    def _quantise_hidden(
        self, h: torch.Tensor, routing: Routing
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        return self.quantise_hidden(h) if self.quantise_hidden else (h, None)

    def _tensors(
        self, layer: FusedMoE, matmul: str
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Weight, scale and bias. Read at each forward, so that a changed parameter is seen."""
        scale = optional(layer, f"{matmul}_{self.scale_name}") if self.scale_name else None
        # Ranks that split an expert add up: its bias enters once, in the first one's part.
        is_first = matmul == "w13" or layer.experts.parallel.tp_rank == 0
        bias = optional(layer, f"{matmul}_bias") if is_first else None
        return layer._parameters[f"{matmul}_weight"], scale, bias
