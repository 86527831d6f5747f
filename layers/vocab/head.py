"""The head: logits of every token of the vocabulary, whose rows are divided over the ranks."""

from __future__ import annotations

from collections.abc import Callable

import torch

from layers.distributed.communication import tensor_parallel_all_gather
from layers.kernels.vocab.logits import multiply_to_float32
from layers.linear.tensor_parallel import TensorParallel
from layers.parameter import FLOAT_DTYPES, ModelWeightParameter, check_dtype
from layers.sharding import LinearLayout, Span
from layers.tensor_layer import TensorLayer
from layers.vocab.embedding import VocabParallelEmbedding


class VocabParallelHead(TensorLayer):
    """hidden · weightᵀ in float32, not rounded; never quantised, as published checkpoints have it.

    Args:
        vocab_size: rows over all ranks, which divide them evenly.
        hidden_size: of a row.
        tied_to: the embedding whose weight this is; None for a weight of its own.
        params_dtype: of hidden states and weight.
        prefix: the layer's name in the model, such as "lm_head".
        device: of the weight; None is torch's default device.

    Attributes:
        multiply: (hidden (n, H), weight (rows, H)) -> (n, rows) float32.

    Raises:
        ValueError: a size below 1, or a vocabulary that does not divide.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        tied_to: VocabParallelEmbedding | None = None,
        params_dtype: torch.dtype = torch.bfloat16,
        prefix: str = "",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(prefix, device)
        check_dtype(prefix, params_dtype)
        tp = TensorParallel.resolve(prefix, None, None)
        self.rows = tp.split(prefix, "vocabulary size", vocab_size)
        self.hidden_size = hidden_size
        self.params_dtype = params_dtype
        self.multiply: Callable[..., torch.Tensor] = multiply_to_float32
        # In a tuple, as a module would take another for its own.
        self._tied_to = (tied_to,)
        self.begin_weight_reload()

    def create_parameters(self) -> None:
        """Registers `weight` (rows of this rank, hidden) of params_dtype, unless it is tied."""
        if self._tied_to[0] is not None:
            self.register_parameter("weight", None)
            return
        columns = Span.whole(self.hidden_size)
        self.weight = ModelWeightParameter(
            LinearLayout.stacked(self.prefix, [(None, self.rows)], columns),
            name="weight",
            dtype=self.params_dtype,
            device=self.device,
            accepted_dtypes=FLOAT_DTYPES,
        )

    def choose_backends(self) -> None:
        """There is one."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden (n, H) of params_dtype -> logits (n, vocabulary) float32, whole on every rank.

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: another shape, dtype or device.
        """
        self.check_ready()
        fits = hidden.dim() == 2 and hidden.shape[1] == self.hidden_size
        if not fits or hidden.dtype != self.params_dtype or hidden.device != self.device:
            raise ValueError(
                f"layer '{self.prefix}': hidden is {tuple(hidden.shape)} {hidden.dtype} on "
                f"{hidden.device}, wanted (rows, {self.hidden_size}) {self.params_dtype} on "
                f"{self.device}."
            )
        owner = self._tied_to[0] or self
        return tensor_parallel_all_gather(self.multiply(hidden, owner.weight.data))

    def extra_repr(self) -> str:
        """Name and sizes, for `print(model)`."""
        tied = ", tied" if self._tied_to[0] is not None else ""
        return f"'{self.prefix}', {self.rows.size} of {self.rows.total} rows{tied}"
