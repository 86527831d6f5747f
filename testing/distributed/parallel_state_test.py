"""Process groups: a world of one without a launcher, repeated and conflicting set-ups, layouts."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from layers.distributed import parallel_state as state
from layers.distributed.communication import tensor_parallel_all_gather, tensor_parallel_all_reduce
from testing.harness.process_group import run_in_processes

LAUNCHER = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def clean_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in LAUNCHER:
        monkeypatch.delenv(variable, raising=False)
    yield
    state.destroy_distributed_environment()


def test_without_any_setup_the_world_is_this_process() -> None:
    assert state.get_tensor_parallel_world_size() == 1
    assert state.get_tensor_parallel_rank() == 0
    x = torch.arange(4.0)
    assert tensor_parallel_all_reduce(x) is x
    assert tensor_parallel_all_gather(x) is x


def test_a_world_of_one_needs_no_launcher() -> None:
    state.init_distributed_environment()
    state.initialize_model_parallel()
    assert dist.get_world_size() == 1
    for kind in ("tensor", "expert", "pipeline"):
        assert getattr(state, f"get_{kind}_parallel_world_size")() == 1
        assert getattr(state, f"get_{kind}_parallel_rank")() == 0


def test_the_same_setup_again_does_nothing() -> None:
    state.init_distributed_environment(backend="gloo")
    state.initialize_model_parallel()
    group = state.get_tensor_parallel_group()
    state.init_distributed_environment(backend="gloo")
    state.initialize_model_parallel()
    assert state.get_tensor_parallel_group() is group


def test_setup_works_again_after_it_was_taken_down() -> None:
    for _ in range(2):
        state.init_distributed_environment()
        state.initialize_model_parallel()
        state.destroy_distributed_environment()
        assert not dist.is_initialized()
    state.destroy_distributed_environment()


def test_another_world_is_refused() -> None:
    state.init_distributed_environment(backend="gloo")
    with pytest.raises(RuntimeError, match=r"already initialised.*destroy_distributed_environment"):
        state.init_distributed_environment(world_size=2, rank=0, backend="gloo")


def test_other_sizes_are_refused() -> None:
    state.init_distributed_environment()
    with pytest.raises(ValueError, match=r"tensor parallel size 2.*world size, 1"):
        state.initialize_model_parallel(tensor_parallel_size=2)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((1, 2, 1), "expert parallel size 2 must divide the tensor parallel size 1"),
        ((1, 0, 1), r"no size may be below 1 \(expert: 0\)"),
        ((-1, 1, -1), "no size may be below 1"),
    ],
)
def test_sizes_that_do_not_divide(sizes: tuple[int, int, int], message: str) -> None:
    state.init_distributed_environment()
    with pytest.raises(ValueError, match=message):
        state.initialize_model_parallel(*sizes)


def test_groups_before_the_world_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"call init_distributed_environment\(\)"):
        state.initialize_model_parallel()


def test_rank_outside_the_world_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 2 does not exist in a world of 2"):
        state.init_distributed_environment(world_size=2, rank=2)


def test_several_processes_need_a_meeting_point() -> None:
    with pytest.raises(ValueError, match="needs a meeting point"):
        state.init_distributed_environment(world_size=2, rank=0, backend="gloo")


def test_a_launched_process_may_not_forget_the_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="one of 2 processes"):
        state.get_tensor_parallel_world_size()


def test_a_launcher_variable_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(ValueError, match="RANK is 'first', wanted a number"):
        state.init_distributed_environment()


Groups = dict[str, tuple[tuple[int, ...], int]]


def groups_of_rank(rank: int, layouts: list[tuple[int, int, int]]) -> list[Groups]:
    torch.set_num_threads(1)
    answers = []
    for sizes in layouts:
        state.initialize_model_parallel(*sizes)
        state.initialize_model_parallel(*sizes)
        groups = {
            "tensor": state.get_tensor_parallel_group(),
            "expert": state.get_expert_parallel_group(),
            "pipeline": state.get_pipeline_parallel_group(),
        }
        answers.append({kind: (group.ranks, group.rank) for kind, group in groups.items()})
        state.destroy_model_parallel()
    return answers


def collectives(rank: int) -> tuple[list[float], list[float], str]:
    torch.set_num_threads(1)
    state.initialize_model_parallel(tensor_parallel_size=2)
    total = tensor_parallel_all_reduce(torch.tensor([1.0, 10.0]) * (rank + 1))
    part = torch.tensor([[rank, rank + 0.5], [rank + 2.0, rank + 2.5]])
    whole = torch.stack(
        [tensor_parallel_all_gather(part, dim=0).t(), tensor_parallel_all_gather(part)]
    )
    try:
        state.initialize_model_parallel(tensor_parallel_size=1, pipeline_parallel_size=2)
    except RuntimeError as error:
        return total.tolist(), whole.flatten().tolist(), str(error)
    return total.tolist(), whole.flatten().tolist(), "accepted"


# (tensor, expert, pipeline) sizes of four ranks, and the groups that each rank is in.
GROUPS: dict[tuple[int, int, int], dict[str, list[tuple[int, ...]]]] = {
    (2, 2, 2): {
        "tensor": [(0, 1), (0, 1), (2, 3), (2, 3)],
        "expert": [(0, 1), (0, 1), (2, 3), (2, 3)],
        "pipeline": [(0, 2), (1, 3), (0, 2), (1, 3)],
    },
    # Two ranks split each expert: those that share the experts are apart.
    (4, 2, 1): {
        "tensor": [(0, 1, 2, 3)] * 4,
        "expert": [(0, 2), (1, 3), (0, 2), (1, 3)],
        "pipeline": [(0,), (1,), (2,), (3,)],
    },
    (2, 1, 2): {
        "tensor": [(0, 1), (0, 1), (2, 3), (2, 3)],
        "expert": [(0,), (1,), (2,), (3,)],
        "pipeline": [(0, 2), (1, 3), (0, 2), (1, 3)],
    },
    (4, 4, 1): {
        "tensor": [(0, 1, 2, 3)] * 4,
        "expert": [(0, 1, 2, 3)] * 4,
        "pipeline": [(0,), (1,), (2,), (3,)],
    },
}


def test_groups_of_four_ranks() -> None:
    answers: list[list[Groups]] = run_in_processes(groups_of_rank, 4, list(GROUPS))
    for rank, by_layout in enumerate(answers):
        for (sizes, wanted), seen in zip(GROUPS.items(), by_layout, strict=True):
            for kind, groups in wanted.items():
                ranks = groups[rank]
                assert seen[kind] == (ranks, ranks.index(rank)), f"rank {rank}, {sizes}, {kind}"


def test_collectives_over_two_ranks_and_a_conflicting_setup() -> None:
    first, second = run_in_processes(collectives, 2)
    assert first == second
    total, whole, error = first
    assert total == [3.0, 30.0]
    along_first = [0.0, 2.0, 1.0, 3.0, 0.5, 2.5, 1.5, 3.5]
    along_last = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    assert whole == along_first + along_last
    assert "groups exist with sizes (tensor, expert, pipeline) = (2, 1, 1)" in error
    assert "(1, 1, 2) was asked for" in error
