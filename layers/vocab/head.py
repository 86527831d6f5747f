"""The head: logits of every token of the vocabulary, whose rows are divided over the ranks."""

from __future__ import annotations

from collections.abc import Callable

import torch

from layers.distributed.communication import tensor_parallel_all_gather
from layers.kernels.vocab.logits import multiply_to_float32
from layers.vocab.embedding import VocabParallelEmbedding
from layers.vocab.rows import VocabParallelLayer


class VocabParallelHead(VocabParallelLayer):
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
        super().__init__(
            vocab_size, hidden_size, params_dtype=params_dtype, prefix=prefix, device=device
        )
        self.multiply: Callable[..., torch.Tensor] = multiply_to_float32
        # In a tuple, as a module would take another for its own.
        self._tied_to = (tied_to,)
        self.begin_weight_reload()

    def create_parameters(self) -> None:
        """Registers `weight` (rows of this rank, hidden) of params_dtype, unless it is tied."""
        if self._tied_to[0] is None:
            super().create_parameters()
        else:
            self.register_parameter("weight", None)

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
