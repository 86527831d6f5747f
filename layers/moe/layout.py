"""Which experts a rank holds, and which part of each."""

from __future__ import annotations

from dataclasses import dataclass

from layers.distributed.parallel_state import (
    get_expert_parallel_group,
    get_tensor_parallel_group,
)
from layers.sharding import LinearLayout, Span, check_integers


@dataclass(frozen=True)
class MoEParallel:
    """One rank's place: `ep_size` ranks share the experts, `tp_size` ranks split each expert.

    Together they are the tensor parallel group of `layers.distributed.parallel_state`, whose
    neighbours split an expert.
    """

    ep_rank: int = 0
    ep_size: int = 1
    tp_rank: int = 0
    tp_size: int = 1

    @classmethod
    def current(cls) -> MoEParallel:
        """As the parallel state has it."""
        tensor, expert = get_tensor_parallel_group(), get_expert_parallel_group()
        split = tensor.world_size // expert.world_size
        return cls(expert.rank, expert.world_size, tensor.rank % split, split)


@dataclass(frozen=True)
class ExpertLayout:
    """How a fused MoE layer's experts lie in its parameters.

    Attributes:
        name: the layer's prefix, for messages.
        experts: the experts that this rank holds, of all; shared ones, which every token uses,
            come after the routed ones.
        w13: of one expert's gate (w1) and up (w3) rows, one under the other: (2I, H).
        w2: of one expert's down projection: (H, I).
        parallel: this rank's place.
    """

    name: str
    experts: Span
    w13: LinearLayout
    w2: LinearLayout
    parallel: MoEParallel

    @classmethod
    def divided(
        cls,
        name: str,
        *,
        routed_experts: int,
        shared_experts: int,
        hidden_size: int,
        intermediate_size: int,
        parallel: MoEParallel,
    ) -> ExpertLayout:
        """Routed experts evenly over the expert group; the shared ones on its last rank.

        Raises:
            ValueError: experts or intermediate size do not divide evenly, or a size below 1.
        """
        check_integers(name, hidden_size=hidden_size, intermediate_size=intermediate_size)
        sizes = (routed_experts, hidden_size, intermediate_size)
        if min(sizes) < 1 or shared_experts < 0:
            raise ValueError(
                f"layer '{name}': {routed_experts} experts, hidden size {hidden_size} and "
                f"intermediate size {intermediate_size}, wanted at least 1 of each, and at least 0 "
                f"shared experts, not {shared_experts}. Correct the model's configuration."
            )
        _check_divides(name, "number of experts", routed_experts, "expert", parallel.ep_size)
        _check_divides(name, "intermediate size", intermediate_size, "tensor", parallel.tp_size)
        own = Span.part(routed_experts, parallel.ep_rank, parallel.ep_size)
        is_last = parallel.ep_rank == parallel.ep_size - 1
        size = own.size + (shared_experts if is_last else 0)
        part = Span.part(intermediate_size, parallel.tp_rank, parallel.tp_size)
        hidden = Span.whole(hidden_size)
        return cls(
            name,
            Span(routed_experts + shared_experts, own.start, size),
            LinearLayout.stacked(name, [("w1", part), ("w3", part)], hidden),
            LinearLayout.stacked(name, [("w2", hidden)], part),
            parallel,
        )

    @property
    def hidden_size(self) -> int:
        """H: values of a token."""
        return self.w13.inputs.total

    @property
    def intermediate_size(self) -> int:
        """I of this rank: rows of its part of an expert's gate."""
        return self.w2.inputs.size

    def of(self, parameter: str) -> LinearLayout:
        """The layout of one expert's part of a parameter, "w13_…" or "w2_…"."""
        return self.w13 if parameter.startswith("w13_") else self.w2


def _check_divides(name: str, what: str, total: int, kind: str, ranks: int) -> None:
    if total % ranks:
        raise ValueError(
            f"layer '{name}': {what} {total} is not divisible by the {kind} parallel size of its "
            f"experts, {ranks}. Use another {kind} parallel size, one that divides it."
        )
