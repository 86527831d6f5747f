"""Which experts, and which part of each, the ranks of larger groups hold."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from layers.moe import layout
from layers.moe.layout import ExpertLayout, MoEParallel

# (tensor, expert) parallel sizes, and each rank's (ep_rank, tp_rank): neighbours split an expert.
WORLDS = {
    (4, 1): [(0, 0), (0, 1), (0, 2), (0, 3)],
    (4, 2): [(0, 0), (0, 1), (1, 0), (1, 1)],
    (4, 4): [(0, 0), (1, 0), (2, 0), (3, 0)],
    (8, 2): [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)],
}


@pytest.mark.parametrize(("sizes", "places"), WORLDS.items())
def test_each_rank_has_its_place(
    sizes: tuple[int, int], places: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, ep_size = sizes
    seen = []
    for rank, (ep_rank, _) in enumerate(places):
        tensor = SimpleNamespace(rank=rank, world_size=world)
        expert = SimpleNamespace(rank=ep_rank, world_size=ep_size)
        monkeypatch.setattr(layout, "get_tensor_parallel_group", lambda g=tensor: g)
        monkeypatch.setattr(layout, "get_expert_parallel_group", lambda g=expert: g)
        place = MoEParallel.current()
        assert (place.ep_size, place.tp_size) == (ep_size, world // ep_size)
        seen.append((place.ep_rank, place.tp_rank))
    assert seen == places


@pytest.mark.parametrize(("sizes", "places"), WORLDS.items())
def test_together_they_hold_every_row_of_every_expert_once(
    sizes: tuple[int, int], places: list[tuple[int, int]]
) -> None:
    world, ep_size = sizes
    held: list[tuple[int, int]] = []
    for ep_rank, tp_rank in places:
        part = ExpertLayout.divided(
            "experts",
            routed_experts=8,
            shared_experts=1,
            hidden_size=4,
            intermediate_size=16,
            parallel=MoEParallel(ep_rank, ep_size, tp_rank, world // ep_size),
        )
        first, rows = part.experts.start, part.w2.inputs
        held += [
            (expert, row)
            for expert in range(first, first + part.experts.size)
            for row in range(rows.start, rows.start + rows.size)
        ]
    assert sorted(held) == [(expert, row) for expert in range(9) for row in range(16)]
