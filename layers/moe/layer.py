"""The fused mixture-of-experts layer: choice of experts, their two matmuls, weighted sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.distributed.communication import tensor_parallel_all_reduce
from layers.errors import WeightLoadError
from layers.kernels.capability import Problem, select_companion
from layers.listing import compress
from layers.loadable import LoadableLayer, Located
from layers.moe.input_checks import check_input, check_loaded_bias, check_options
from layers.moe.layout import ExpertLayout, MoEParallel
from layers.moe.names import NAMINGS, place_of
from layers.moe.parameter import ExpertParameter
from layers.moe.quantization.base import MoEMethodBase
from layers.moe.quantization.registry import get_moe_method
from layers.moe.quantization.unquantized import UnquantizedMoEMethod
from layers.moe.topk import TopKConfig, TopKOutput, select_experts
from layers.moe.topk_operations import operation_of
from layers.parameter import FLOAT_DTYPES, BiasParameter
from layers.quantization.base import QuantizationConfig, check_backend
from layers.sharding import ShardId

_REPLACED = (
    "if it was replaced since the layer was built, by an assignment or by to_empty() on a meta "
    "layer, build the layer on its device or call layers.weights.begin_weight_reload(), and load "
    "it again"
)


class FusedMoE(LoadableLayer):
    """y = Σ_k weight_k · w2[e_k] (act(w1[e_k] x) · (w3[e_k] x)) over the chosen experts e_k.

    The life of a layer: construct, load every tensor of every expert through `weight_loader`, call
    `process_weights_after_loading`, then `forward`. README.md beside this file tells it.

    Experts divide over the expert parallel group, and each one's intermediate values over the ranks
    of the tensor parallel group that are left; the ranks' parts are summed over the tensor group.

    Args:
        num_experts: routed experts, E, of all ranks.
        hidden_size: H, values of a token.
        intermediate_size: I, rows of an expert's gate, of all ranks.
        topk: how experts are chosen. Its shared experts are stored behind the routed ones.
        params_dtype: dtype of x, biases and output: float16, bfloat16 or float32.
        quant_config: chooses the method by `prefix`; None is unquantised.
        prefix: the layer's name in the model, such as "model.layers.0.mlp.experts".
        activation: "silu" or "swiglu_oai"; see `layers.kernels.moe.activation`.
        has_bias: whether the checkpoint holds biases, of w13 (2I,) and of w2 (H,) an expert.
        correction_bias: (E,), added to the scores in choosing; it belongs to the router, which
            loads it, and is read at each forward.
        device: of the parameters; None is torch's default device.
        reduce_results: sum over the ranks. Without it each rank returns its part.
        backend: the runner, by name; None takes the config's, or chooses by capability.

    Raises:
        ValueError: sizes that do not divide over the ranks or the format, or an unknown option.
    """

    def __init__(
        self,
        num_experts: int,
        hidden_size: int,
        intermediate_size: int,
        *,
        topk: TopKConfig,
        params_dtype: torch.dtype = torch.bfloat16,
        quant_config: QuantizationConfig | None = None,
        prefix: str = "",
        activation: str = "silu",
        has_bias: bool = False,
        correction_bias: torch.Tensor | None = None,
        device: torch.device | str | None = None,
        reduce_results: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__()
        check_options(
            *(prefix, num_experts, topk, params_dtype, quant_config, activation, correction_bias)
        )
        self.prefix = prefix
        self.num_experts = num_experts
        self.topk = topk
        self.params_dtype = params_dtype
        self.activation = activation
        self.has_bias = has_bias
        self.reduce_results = reduce_results
        self.quant_config = quant_config
        self.backend = check_backend(backend)
        # In a tuple, as a module would take a parameter for its own.
        self._correction_bias = (correction_bias,)
        self.experts = ExpertLayout.divided(
            prefix,
            routed_experts=num_experts,
            shared_experts=topk.num_shared_experts,
            hidden_size=hidden_size,
            intermediate_size=intermediate_size,
            parallel=MoEParallel.current(),
        )
        self.device = torch.empty(0, device=device).device
        self.select_experts: Callable[..., TopKOutput] = select_experts
        self._ready = False
        self._create_parameters()

    @property
    def is_ready(self) -> bool:
        """Whether `process_weights_after_loading` has run."""
        return self._ready

    @property
    def shard_ids(self) -> tuple[ShardId, ...]:
        """Ids of the matmuls of an expert."""
        return ("w1", "w3", "w2")

    def locate(self, name: str) -> Located | None:
        """Where a checkpoint tensor, named within the layer, goes; see `layers.moe.names`.

        Raises:
            WeightLoadError: the name is that of an expert's tensor, but the layer has none such.
        """
        place = place_of(name)
        if place is None:
            return None
        param = self._parameters.get(place.parameter)
        if param is None:
            raise WeightLoadError(
                f"checkpoint tensor '{self.prefix}.{name}' has no parameter: FusedMoE has no "
                f"'{place.parameter}', its parameters are {', '.join(self._loadable_names)}. Check "
                f"the quantisation config, and has_bias= of the layer."
            )

        def load(tensor: torch.Tensor) -> None:
            self.weight_loader(param, tensor, "", place.shard_id, place.expert_id)

        return load

    def weight_loader(
        self,
        param: torch.nn.Parameter,
        loaded_weight: torch.Tensor,
        weight_name: str,
        shard_id: ShardId,
        expert_id: int | None,
    ) -> None:
        """Loads one checkpoint tensor: the only way for a weight into the layer.

        Args:
            param: one of this layer's parameters.
            loaded_weight: the full tensor; this rank's part is taken here, and a tensor of another
                rank's expert is only checked.
            weight_name: the checkpoint's name of it, for messages; empty where the caller adds it.
            shard_id: "w1" (gate), "w3" (up) or "w2" (down); "w13" for gate and up in one tensor.
            expert_id: of all ranks' experts; None for a tensor with all experts in dimension 0.

        Raises:
            WeightLoadError: see `ExpertParameter.load`; or the layer is ready already.
        """
        try:
            self._check_loadable(param).load(loaded_weight, shard_id, expert_id)
        except WeightLoadError as error:
            if not weight_name:
                raise
            raise WeightLoadError(f"checkpoint tensor '{weight_name}': {error}") from error

    def weight_loader_v2(
        self, param: torch.nn.Parameter, loaded_weight: torch.Tensor, shard_id: ShardId = None
    ) -> None:
        """Loads a tensor that holds all experts, as the loaders of linear layers are called."""
        self.weight_loader(param, loaded_weight, "", shard_id, None)

    def missing_weights(self) -> list[str]:
        """Tensors still to be loaded, by full name with shard and expert.

        A parameter that was replaced since the layer was built is among them: nobody can tell what
        its memory holds.
        """
        missing: list[str] = []
        for name in self._loadable_names:
            param = self._parameters.get(name)
            if isinstance(param, ExpertParameter):
                missing += param.missing()
                continue
            full_name = f"{self.prefix}.{name}" if self.prefix else name
            missing.append(f"'{full_name}' (lost: {_REPLACED})")
        return missing

    def process_weights_after_loading(self) -> None:
        """Checks that everything was loaded and readies the runner; does nothing if ready.

        Raises:
            WeightLoadError: naming what was never loaded, or a parameter that was converted after
                it was built.
            BackendUnavailable: the runner asked for cannot run here.
            ValueError: a scale that cannot be used, or a correction bias on another device, or
                with NaN.
        """
        if self._ready:
            return
        missing = self.missing_weights()
        if missing:
            raise WeightLoadError(
                f"layer '{self.prefix}' lacks {len(missing)} tensors, {compress(missing)}: no "
                f"checkpoint tensor was loaded there. Check that the checkpoint is whole."
            )
        for param in self.parameters():
            if isinstance(param, ExpertParameter):
                param.check_own()
        device = next(self.parameters()).device
        check_loaded_bias(self._correction_bias[0], self.num_experts, device, self.prefix)
        self.quant_method.process_weights_after_loading(self)
        self.device = device
        self._choose_router()
        self._ready = True

    def begin_weight_reload(self) -> None:
        """Drops weights and method and makes new ones in new memory, as the constructor does.

        CUDA graphs captured before must be captured again.
        """
        self._ready = False
        for name, _ in list(self.named_parameters(recurse=False)):
            self.register_parameter(name, None)
        self._create_parameters()

    def forward(self, x: torch.Tensor, router_logits: torch.Tensor) -> torch.Tensor:
        """x (T, H) of params_dtype, router_logits (T, E) float -> (T, H) of params_dtype.

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: x or logits of another shape, dtype or device, or a gradient asked for.
        """
        check_input(self, x, router_logits)
        if not x.shape[0]:
            return torch.empty_like(x)
        topk = self.select_experts(router_logits, self.topk, self._correction_bias[0])
        out = self.quant_method.apply(self, x, topk)
        return tensor_parallel_all_reduce(out) if self.reduce_results else out

    def extra_repr(self) -> str:
        """Name, sizes on this rank and method, for `print(model)`."""
        e = self.experts
        method = type(self.quant_method).__name__
        return (
            f"'{self.prefix}', {e.experts.size} of {e.experts.total} experts, "
            f"{e.hidden_size} -> {e.intermediate_size}, {method}"
        )

    def _create_parameters(self) -> None:
        self.quant_method = self._choose_method()
        self.quant_method.create_weights(self, self.params_dtype, self.device)
        if self.has_bias:
            for name in ("w13_bias", "w2_bias"):
                self.register_parameter(name, self._bias(name))
        self._loadable_names = [name for name, _ in self.named_parameters(recurse=False)]

    def _choose_method(self) -> MoEMethodBase:
        method = None
        if self.quant_config is not None:
            names = [
                [f"{e}.{n}" for e in range(self.num_experts) for n in naming] for naming in NAMINGS
            ]
            method = get_moe_method(self.quant_config, self.prefix, names, self.backend)
        if method is not None:
            return method
        config = self.quant_config
        return UnquantizedMoEMethod(self.backend or (config.backend if config else None))

    def _choose_router(self) -> None:
        operation = operation_of(self.topk)
        has_bias = self._correction_bias[0] is not None
        problem = Problem(self.params_dtype, self.num_experts, self.topk.choices, bias=has_bias)
        runner = next(iter(self.quant_method.backends.values()), "")
        chosen = select_companion(operation, self.device, problem, runner)
        self.quant_method.backends[operation.name] = chosen.name
        self.select_experts = chosen.load()

    def _bias(self, name: str) -> ExpertParameter:
        options: dict[str, Any] = {"kind": BiasParameter, "accepted_dtypes": FLOAT_DTYPES}
        is_interleaved = getattr(self._parameters["w13_weight"], "interleaved", False)
        return ExpertParameter(
            self.experts,
            name,
            dtype=self.params_dtype,
            device=self.device,
            interleaved=is_interleaved,
            **options,
        )

    def _check_loadable(self, param: torch.nn.Parameter) -> ExpertParameter:
        if self._ready:
            raise WeightLoadError(
                f"layer '{self.prefix}' is ready for forward and takes no more weights. Call "
                f"layers.weights.begin_weight_reload() before loading others."
            )
        if isinstance(param, ExpertParameter) and any(param is p for p in self.parameters()):
            return param
        raise WeightLoadError(
            f"layer '{self.prefix}': the parameter given is none of those that the layer was "
            f"built with, {', '.join(self._loadable_names)}. Pass one of them; or, {_REPLACED}."
        )
