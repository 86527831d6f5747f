"""What all linear layers share: weights by quantisation method, loading, and input checks."""

from __future__ import annotations

import torch

from layers.parameter import FLOAT_DTYPES, BiasParameter, check_dtype
from layers.quantization.base import QuantizationConfig, check_config
from layers.quantization.unquantized import UnquantizedLinearMethod
from layers.sharding import LinearLayout, ShardId
from layers.tensor_layer import TensorLayer


class LinearBase(TensorLayer):
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
        super().__init__(prefix, device)
        check_dtype(prefix, params_dtype)
        check_config(prefix, quant_config)
        self.layout = layout
        self.params_dtype = params_dtype
        self.has_bias = bias
        self.quant_config = quant_config
        self.begin_weight_reload()

    @property
    def shard_ids(self) -> tuple[ShardId, ...]:
        """Ids of the layer's shards in the order of their rows."""
        return self.layout.shard_ids

    def create_parameters(self) -> None:
        """Takes the prefix's method, and has it make the weight's parameters; the bias beside."""
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

    def choose_backends(self) -> None:
        """Brings what was loaded into the layout of the method's kernels.

        Raises:
            BackendUnavailable: the backend asked for cannot run here.
        """
        self.quant_method.process_weights_after_loading(self)

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
        self.check_ready()
        if not isinstance(x, torch.Tensor):
            raise ValueError(
                f"layer '{self.prefix}': x is a {type(x).__module__}.{type(x).__name__}, wanted a "
                f"torch.Tensor (..., {columns}) {self.params_dtype} on {self.device}."
            )
        raise ValueError(
            f"layer '{self.prefix}': x is {tuple(x.shape)} {x.dtype} on {x.device}, wanted "
            f"(..., {columns}) {self.params_dtype} on {self.device}."
        )
