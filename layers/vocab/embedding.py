"""The embedding of tokens, the vocabulary's rows divided over the ranks."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from layers.distributed.communication import tensor_parallel_all_reduce
from layers.vocab.rows import VocabParallelLayer


class VocabParallelEmbedding(VocabParallelLayer):
    """weight[token]; a rank looks up what lies in its rows, and the ranks' parts are summed.

    The sum is exact: all parts of a token but one are zero.

    Args:
        vocab_size: rows over all ranks, which divide them evenly.
        hidden_size: of a row.
        params_dtype: of weight and output.
        prefix: the layer's name in the model, such as "model.embed_tokens".
        device: of the weight; None is torch's default device.

    Raises:
        ValueError: a size below 1, or a vocabulary that does not divide.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        params_dtype: torch.dtype = torch.bfloat16,
        prefix: str = "",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            vocab_size, hidden_size, params_dtype=params_dtype, prefix=prefix, device=device
        )
        self.begin_weight_reload()

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """input_ids (T,) int64 -> (T, hidden) of params_dtype, whole on every rank.

        On a GPU nobody looks whether a token is in the vocabulary, as that would wait for it.

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: another shape, dtype or device, or (on the CPU) a token out of range.
        """
        self.check_ready()
        is_int64 = input_ids.dtype == torch.int64
        if input_ids.dim() != 1 or not is_int64 or input_ids.device != self.device:
            raise ValueError(
                f"layer '{self.prefix}': input_ids is {tuple(input_ids.shape)} {input_ids.dtype} "
                f"on {input_ids.device}, wanted (tokens,) torch.int64 on {self.device}."
            )
        if self.device.type == "cpu" and len(input_ids):
            self._check_range(int(input_ids.min()), int(input_ids.max()))
        weight = self.weight.data
        if self.rows.size == self.rows.total:
            return F.embedding(input_ids, weight)
        row = input_ids - self.rows.start
        is_own = (row >= 0) & (row < self.rows.size)
        found = F.embedding(row.clamp(0, self.rows.size - 1), weight)
        return tensor_parallel_all_reduce(found.masked_fill_(~is_own[:, None], 0))

    def extra_repr(self) -> str:
        """Name and sizes, for `print(model)`."""
        return f"'{self.prefix}', {self.rows.size} of {self.rows.total} rows of {self.hidden_size}"

    def _check_range(self, first: int, last: int) -> None:
        if first < 0 or last >= self.rows.total:
            raise ValueError(
                f"layer '{self.prefix}': input_ids reach from {first} to {last}, wanted 0 to "
                f"{self.rows.total - 1}, the vocabulary. Check the tokenizer."
            )
