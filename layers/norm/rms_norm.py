"""Root-mean-square norm of hidden states, with the sum of the residual stream before it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from layers.kernels.capability import Problem, select_backend
from layers.kernels.norm.rms_norm import RMS_NORM
from layers.parameter import FLOAT_DTYPES, BiasParameter, check_dtype
from layers.sharding import LinearLayout, Span
from layers.tensor_layer import TensorLayer

Normed = tuple[torch.Tensor, torch.Tensor]


class RMSNorm(TensorLayer):
    """y = x · weight / sqrt(mean(x²) + eps), in float32, rounded once; every rank holds it whole.

    Args:
        size: N, values of a row.
        eps: added to the mean of squares.
        params_dtype: of x, weight and y: float16, bfloat16 or float32.
        prefix: the layer's name in the model, such as "model.norm".
        backend: "torch" or "triton"; None chooses by capability.
        device: of the weight; None is torch's default device.

    Attributes:
        normalise: (x, residual or None, weight, eps) -> (y, sum); set by post-load.

    Raises:
        ValueError: a size below 1, or an eps that is not above 0.
    """

    normalise: Callable[..., Normed]

    def __init__(
        self,
        size: int,
        eps: float,
        *,
        params_dtype: torch.dtype = torch.bfloat16,
        prefix: str = "",
        backend: str | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(prefix, device)
        check_dtype(prefix, params_dtype)
        if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 < eps < float("inf"):
            raise ValueError(
                f"layer '{prefix}': eps is {eps!r}, wanted a number above 0, such as 1e-6. Correct "
                f"the model's configuration."
            )
        self.size = size
        self.eps = float(eps)
        self.params_dtype = params_dtype
        self.requested_backend = backend
        self.begin_weight_reload()

    def create_parameters(self) -> None:
        """Registers `weight` (N,) of params_dtype."""
        layout = LinearLayout.stacked(self.prefix, [(None, Span.whole(self.size))], Span.whole(1))
        self.weight = BiasParameter(
            layout,
            name="weight",
            dtype=self.params_dtype,
            device=self.device,
            accepted_dtypes=FLOAT_DTYPES,
        )

    def choose_backends(self) -> None:
        """By device and size."""
        problem = Problem(self.params_dtype, self.size)
        backend = select_backend(RMS_NORM, self.device, problem, self.requested_backend)
        self.backend = backend.name
        self.normalise = backend.load()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (T, N) of params_dtype -> (T, N).

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: x of another shape, dtype or device.
        """
        return self._normed(x, None)[0]

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> Normed:
        """x and residual (T, N) -> norm of their sum, rounded once, and the sum; as `forward`."""
        return self._normed(x, residual)

    def extra_repr(self) -> str:
        """Name and size, for `print(model)`."""
        return f"'{self.prefix}', {self.size}, eps={self.eps}"

    def _normed(self, x: torch.Tensor, residual: torch.Tensor | None) -> Normed:
        self.check_ready()
        for value in (x,) if residual is None else (x, residual):
            fits = value.dim() == 2 and value.shape[1] == self.size and value.shape == x.shape
            if not fits or value.dtype != self.params_dtype or value.device != self.device:
                raise ValueError(
                    f"layer '{self.prefix}': x is {tuple(value.shape)} {value.dtype} on "
                    f"{value.device}, wanted ({x.shape[0]}, {self.size}) {self.params_dtype} on "
                    f"{self.device}."
                )
        if not x.shape[0]:
            return torch.empty_like(x), x
        return self.normalise(x, residual, self.weight.data, self.eps)
