"""What the layers at both ends of a model share: a weight of a row a token, shared out to ranks."""

from __future__ import annotations

import torch

from layers.linear.tensor_parallel import TensorParallel
from layers.parameter import FLOAT_DTYPES, ModelWeightParameter, check_dtype
from layers.sharding import LinearLayout, Span
from layers.tensor_layer import TensorLayer


class VocabParallelLayer(TensorLayer):
    """A layer whose `weight` has this rank's rows of the vocabulary.

    Args:
        vocab_size: rows over all ranks, which divide them evenly.
        hidden_size: of a row.
        params_dtype: of the weight.
        prefix: the layer's name in the model.
        device: of the weight; None is torch's default device.

    Attributes:
        rows: those of this rank.

    Raises:
        ValueError: a size below 1, or a vocabulary that does not divide.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        params_dtype: torch.dtype,
        prefix: str,
        device: torch.device | str | None,
    ) -> None:
        super().__init__(prefix, device)
        check_dtype(prefix, params_dtype)
        tp = TensorParallel.resolve(prefix, None, None)
        self.rows = tp.split(prefix, "vocabulary size", vocab_size)
        self.hidden_size = hidden_size
        self.params_dtype = params_dtype

    def create_parameters(self) -> None:
        """Registers `weight` (rows of this rank, hidden) of params_dtype."""
        self.weight = ModelWeightParameter(
            LinearLayout.stacked(self.prefix, [(None, self.rows)], Span.whole(self.hidden_size)),
            name="weight",
            dtype=self.params_dtype,
            device=self.device,
            accepted_dtypes=FLOAT_DTYPES,
        )

    def choose_backends(self) -> None:
        """There is one."""
