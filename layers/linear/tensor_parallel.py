"""How many ranks split a layer, and which of them this one is."""

from __future__ import annotations

from dataclasses import dataclass

from layers.distributed.parallel_state import get_tensor_parallel_group
from layers.sharding import Span, check_integers


@dataclass(frozen=True)
class TensorParallel:
    """One rank's place among the `size` ranks that split a layer."""

    rank: int
    size: int

    @classmethod
    def resolve(cls, prefix: str, tp_rank: int | None, tp_size: int | None) -> TensorParallel:
        """As given, or as the parallel state has it.

        Raises:
            ValueError: only one of the two given, or no such rank.
        """
        if tp_rank is None and tp_size is None:
            group = get_tensor_parallel_group()
            return cls(group.rank, group.world_size)
        given = {"tp_rank": tp_rank, "tp_size": tp_size}
        check_integers(prefix, **{n: v for n, v in given.items() if v is not None})
        if tp_rank is None or tp_size is None or not 0 <= tp_rank < tp_size:
            raise ValueError(
                f"layer '{prefix}': tp_rank {tp_rank} and tp_size {tp_size} do not fit: give both "
                f"or neither, with 0 <= tp_rank < tp_size."
            )
        return cls(tp_rank, tp_size)

    def split(self, prefix: str, what: str, total: int) -> Span:
        """This rank's part of `total`.

        Raises:
            ValueError: the ranks do not divide it evenly, or it is no integer.
        """
        check_integers(prefix, **{what: total})
        if total % self.size:
            raise ValueError(
                f"layer '{prefix}': {what} {total} is not divisible by the tensor parallel size "
                f"{self.size}. Use a tensor parallel size that divides it."
            )
        return Span.part(total, self.rank, self.size)

    def require_group(self, prefix: str, option: str) -> None:
        """Refuses an option that needs the other ranks where the group does not consist of them.

        Raises:
            ValueError: naming the option.
        """
        group = get_tensor_parallel_group()
        if (group.rank, group.world_size) != (self.rank, self.size):
            raise ValueError(
                f"layer '{prefix}': {option} exchanges data between the ranks of the tensor "
                f"parallel group, which has {group.world_size}, not the {self.size} given as "
                f"tp_size. Initialise the group with that size, or pass {option}=False."
            )
