"""What all linear layers share: weights by quantisation method, loading, and input checks."""

from __future__ import annotations

import torch

from layers.errors import WeightLoadError
from layers.loadable import LoadableLayer
from layers.parameter import FLOAT_DTYPES, BiasParameter, ShardedParameter, check_dtype
from layers.quantization.base import QuantizationConfig, check_config
from layers.quantization.unquantized import UnquantizedLinearMethod
from layers.sharding import LinearLayout, ShardId

_REPLACED = (
    "if it was replaced since the layer was built, by an assignment or by to_empty() on a meta "
    "layer, build the layer on its device or call layers.weights.begin_weight_reload(), and load "
    "it again"
)


class LinearBase(LoadableLayer):
    """y = x Wᵀ + b with a weight (N, K) that a quantisation method stores and multiplies.

    The life of a layer: construct, load every parameter through `weight_loader_v2`, call
    `process_weights_after_loading`, then `forward`.

    Args:
        layout: the layer's shards and this rank's part of N and K.
        bias: whether the checkpoint holds a bias (N,).
        params_dtype: dtype of x, bias and output: float16, bfloat16 or float32.
        quant_config: chooses the method by `prefix`; None is unquantised.
        prefix: the layer's name in the model, such as "model.layers.0.mlp.down_proj".
        device: of the parameters; None is torch's default device.
    """

    def __init__(
        self,
        layout: LinearLayout,
        *,
        bias: bool = False,
        params_dtype: torch.dtype = torch.bfloat16,
        quant_config: QuantizationConfig | None = None,
        prefix: str = "",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        check_dtype(prefix, params_dtype)
        check_config(prefix, quant_config)
        self.prefix = prefix
        self.layout = layout
        self.params_dtype = params_dtype
        self.has_bias = bias
        self.quant_config = quant_config
        self.device = torch.empty(0, device=device).device
        self._ready = False
        self._create_parameters()

    @property
    def is_ready(self) -> bool:
        """Whether `process_weights_after_loading` has run."""
        return self._ready

    @property
    def shard_ids(self) -> tuple[ShardId, ...]:
        """Ids of the layer's shards in the order of their rows."""
        return self.layout.shard_ids

    def weight_loader_v2(
        self, param: torch.nn.Parameter, loaded_weight: torch.Tensor, shard_id: ShardId = None
    ) -> None:
        """Loads one checkpoint tensor: the only way for a weight into the layer.

        Args:
            param: one of this layer's parameters.
            loaded_weight: the full tensor; this rank's part is taken here.
            shard_id: which of the fused tensors it is. None for the only one, or for a checkpoint
                that stores them already fused.

        Raises:
            WeightLoadError: see `ShardedParameter.load`; or the layer is ready already.
        """
        if self._ready:
            raise WeightLoadError(
                f"layer '{self.prefix}' is ready for forward and takes no more weights. Call "
                f"layers.weights.begin_weight_reload() before loading others."
            )
        if not isinstance(param, ShardedParameter) or all(
            param is not p for p in self.parameters()
        ):
            raise WeightLoadError(
                f"layer '{self.prefix}': the parameter given is none of those that the layer was "
                f"built with, {', '.join(self._loadable_names)}. Pass one of them; or, "
                f"{_REPLACED}."
            )
        param.load(loaded_weight, shard_id)

    def missing_weights(self) -> list[str]:
        """Parameters and shards still to be loaded, by full name.

        A parameter that was replaced since the layer was built is among them: nobody can tell what
        its memory holds.
        """
        missing: list[str] = []
        for name in self._loadable_names:
            param = self._parameters.get(name)
            if isinstance(param, ShardedParameter):
                missing += [param.label(shard_id) for shard_id in param.missing_shards]
                continue
            full_name = f"{self.prefix}.{name}" if self.prefix else name
            missing.append(f"'{full_name}' (lost: {_REPLACED})")
        return missing

    def process_weights_after_loading(self) -> None:
        """Checks that everything was loaded and readies the kernels; does nothing if ready.

        Raises:
            WeightLoadError: naming each parameter and shard never loaded, or a parameter that was
                converted after it was built.
            BackendUnavailable: the backend asked for cannot run here.
        """
        if self._ready:
            return
        missing = self.missing_weights()
        if missing:
            raise WeightLoadError(
                f"layer '{self.prefix}' lacks {', '.join(missing)}: no checkpoint tensor was "
                f"loaded there. Check that the checkpoint is whole."
            )
        for param in self.parameters():
            if isinstance(param, ShardedParameter):
                param.check_own()
        self.quant_method.process_weights_after_loading(self)
        self.device = next(self.parameters()).device
        self._ready = True

    def begin_weight_reload(self) -> None:
        """Drops weights and method and makes new ones in new memory, as the constructor does.

        CUDA graphs captured before must be captured again.
        """
        self._ready = False
        for name, _ in list(self.named_parameters(recurse=False)):
            self.register_parameter(name, None)
        self._create_parameters()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (…, K) -> (…, N of this rank), both of params_dtype.

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: x of another width, dtype or device.
        """
        self._check_input(x, self.layout.inputs.total)
        return self._multiply(x, self.bias)

    def dequantised_weight(self) -> torch.Tensor:
        """This rank's weight by its values, (N of this rank, K of this rank) float32, a new copy.

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: the quantisation method does not give it back.
        """
        if not self._ready:
            raise RuntimeError(
                f"layer '{self.prefix}' has no weight yet: load its weights, then call "
                f"layers.weights.process_weights_after_loading()."
            )
        return self.quant_method.dequantised_weight(self)

    def extra_repr(self) -> str:
        """Name, size on this rank and method, for `print(model)`."""
        method = type(self.quant_method).__name__
        return f"'{self.prefix}', {self.layout.rows} x {self.layout.inputs.size}, {method}"

    def _create_parameters(self) -> None:
        config = self.quant_config
        method = config.get_quant_method(self, self.prefix) if config is not None else None
        self.quant_method = method or UnquantizedLinearMethod()
        self.quant_method.create_weights(self, self.layout, self.params_dtype, self.device)
        if self.has_bias:
            self.bias: torch.nn.Parameter | None = BiasParameter(
                self.layout,
                name="bias",
                dtype=self.params_dtype,
                device=self.device,
                accepted_dtypes=FLOAT_DTYPES,
            )
        else:
            self.register_parameter("bias", None)
        self._loadable_names = [name for name, _ in self.named_parameters(recurse=False)]

    def _multiply(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """x (…, K) of this rank -> (…, N) of this rank, after the checks of `_check_input`."""
        if x.dim() == 2 and x.shape[0]:
            return self.quant_method.apply(self, x, bias)
        leading = x.shape[:-1]
        rows = self.layout.rows
        if not x.numel():
            return x.new_empty((*leading, rows))
        return self.quant_method.apply(self, x.reshape(-1, x.shape[-1]), bias).view(*leading, rows)

    def _check_input(self, x: torch.Tensor, columns: int) -> None:
        if (
            self._ready
            and isinstance(x, torch.Tensor)
            and x.dim()
            and x.shape[-1] == columns
            and x.dtype == self.params_dtype
            and x.device == self.device
        ):
            return
        if not self._ready:
            raise RuntimeError(
                f"layer '{self.prefix}' is not ready for forward: load its weights, then call "
                f"layers.weights.process_weights_after_loading()."
            )
        if not isinstance(x, torch.Tensor):
            raise ValueError(
                f"layer '{self.prefix}': x is a {type(x).__module__}.{type(x).__name__}, wanted a "
                f"torch.Tensor (..., {columns}) {self.params_dtype} on {self.device}."
            )
        raise ValueError(
            f"layer '{self.prefix}': x is {tuple(x.shape)} {x.dtype} on {x.device}, wanted "
            f"(..., {columns}) {self.params_dtype} on {self.device}."
        )
