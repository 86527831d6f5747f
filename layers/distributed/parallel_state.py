"""Which rank this process is, and the groups in which it shares a model's layers.

Ranks are laid out as tensor-parallel neighbours first: with tensor parallel size T, ranks
`iT … iT+T-1` share stage i of the pipeline. Expert groups lie inside a tensor group: with expert
parallel size E, experts are spread over ranks T/E apart, and the T/E ranks between them split
each expert. The layout is that of Megatron-LM and SGLang.

Without a launcher the world is this one process, and no group is created.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from layers.distributed.launcher import default_backend, from_launcher, join_world

DEFAULT_TIMEOUT = timedelta(minutes=10)


@dataclass(frozen=True)
class Environment:
    """What `init_distributed_environment` settled on."""

    world_size: int
    rank: int
    local_rank: int
    backend: str


@dataclass(frozen=True)
class ParallelGroup:
    """The ranks that share one kind of work with this process, itself among them."""

    kind: str
    ranks: tuple[int, ...]
    rank: int
    process_group: dist.ProcessGroup | None  # None where the group is this process alone

    @property
    def world_size(self) -> int:
        """How many ranks the group has."""
        return len(self.ranks)


@dataclass
class _State:
    environment: Environment | None = None
    world: dist.ProcessGroup | None = None  # that torch.distributed was in at the time
    owned: bool = False  # whether this module started it
    timeout: timedelta = DEFAULT_TIMEOUT
    sizes: tuple[int, int, int] | None = None
    tensor: ParallelGroup | None = None
    expert: ParallelGroup | None = None
    pipeline: ParallelGroup | None = None


_state = _State()


def init_distributed_environment(
    world_size: int | None = None,
    rank: int | None = None,
    init_method: str | None = None,
    backend: str | None = None,
    local_rank: int | None = None,
    timeout: timedelta = DEFAULT_TIMEOUT,
) -> None:
    """Joins the world of processes; a second call with the same meaning does nothing.

    A world that torch.distributed was in already is adopted, and left alone by
    `destroy_distributed_environment`.

    Args:
        world_size, rank, local_rank: None takes the launcher's WORLD_SIZE, RANK and LOCAL_RANK;
            without a launcher, a world of one on the first GPU.
        init_method: where the processes meet, `tcp://HOST:PORT` or `file://PATH`. None takes the
            launcher's MASTER_ADDR and MASTER_PORT; a world of one takes a free port.
        backend: "gloo", "nccl" or torch's "cpu:gloo,cuda:nccl". None is that of a world joined
            before, or else the last of these where each process of this host has a GPU, or "gloo".
        timeout: how long a collective waits for the other ranks, in the world and in the groups of
            `initialize_model_parallel`.

    Raises:
        RuntimeError: initialised before with other values.
        ValueError: rank outside the world, or several processes and no meeting point.
    """
    world_size, rank, local_rank = _place(world_size, rank, local_rank)
    if not _in_known_world():
        _forget()
    if dist.is_initialized():
        seen = _state.environment or Environment(
            dist.get_world_size(), dist.get_rank(), local_rank, dist.get_backend()
        )
        _check_same(seen, Environment(world_size, rank, local_rank, backend or seen.backend))
    else:
        seen = Environment(world_size, rank, local_rank, backend or default_backend(world_size))
        if "nccl" in seen.backend:
            torch.cuda.set_device(local_rank)
        join_world(seen.backend, rank, world_size, init_method, timeout)
        _state.owned = True
    if _state.environment is None:
        _state.environment, _state.world, _state.timeout = seen, dist.group.WORLD, timeout


def _place(
    world_size: int | None, rank: int | None, local_rank: int | None
) -> tuple[int, int, int]:
    world_size = from_launcher(world_size, "WORLD_SIZE", 1)
    rank = from_launcher(rank, "RANK", 0)
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(
            f"rank {rank} does not exist in a world of {world_size}: ranks run from 0 to "
            f"world_size - 1. Check RANK and WORLD_SIZE, or the arguments."
        )
    gpus = torch.cuda.device_count() or 1
    return world_size, rank, from_launcher(local_rank, "LOCAL_RANK", rank % gpus)


def _check_same(seen: Environment, wanted: Environment) -> None:
    if seen != wanted:
        raise RuntimeError(
            f"the distributed environment is already initialised as {seen}, and {wanted} was asked "
            f"for. Pass the same values, or leave it first: destroy_distributed_environment(), or "
            f"torch.distributed.destroy_process_group() where it was initialised with torch's own."
        )


def _in_known_world() -> bool:
    # The world may have been left, and another joined, without this module.
    return dist.is_initialized() and _state.world is dist.group.WORLD


def _forget() -> None:
    _state.tensor = _state.expert = _state.pipeline = _state.sizes = None
    _state.environment = _state.world = None
    _state.owned = False


def initialize_model_parallel(
    tensor_parallel_size: int = 1,
    expert_parallel_size: int = 1,
    pipeline_parallel_size: int = 1,
) -> None:
    """Divides the world into tensor, expert and pipeline groups; the same call again does nothing.

    Every process of the world must call it. Needs `init_distributed_environment` first.

    Raises:
        RuntimeError: no distributed environment, or divided before with other sizes.
        ValueError: sizes whose product is not the world, or experts that do not divide the tensor
            group.
    """
    if _state.environment is None:
        raise RuntimeError(
            "the distributed environment is not initialised: call init_distributed_environment() "
            "first; without arguments it makes a world of one, or joins the launcher's."
        )
    sizes = (tensor_parallel_size, expert_parallel_size, pipeline_parallel_size)
    if _state.sizes is not None:
        if _state.sizes == sizes:
            return
        raise RuntimeError(
            f"model parallel groups exist with sizes (tensor, expert, pipeline) = {_state.sizes}, "
            f"and {sizes} was asked for. Call destroy_model_parallel() first."
        )
    world = _state.environment.world_size
    _check_sizes(world, *sizes)
    t, e, _ = sizes
    stages = [range(first, first + t) for first in range(0, world, t)]
    _state.tensor = _new_group("tensor", stages)
    _state.expert = _new_group(
        "expert", [stage[j :: t // e] for stage in stages for j in range(t // e)]
    )
    _state.pipeline = _new_group("pipeline", [range(first, world, t) for first in range(t)])
    _state.sizes = sizes


def _check_sizes(world: int, tensor: int, expert: int, pipeline: int) -> None:
    if min(tensor, expert, pipeline) < 1 or tensor * pipeline != world:
        raise ValueError(
            f"tensor parallel size {tensor} x pipeline parallel size {pipeline} must be the world "
            f"size, {world}, and no size may be below 1 (expert: {expert})."
        )
    if tensor % expert:
        raise ValueError(
            f"expert parallel size {expert} must divide the tensor parallel size {tensor}: "
            f"experts are spread over the ranks of a tensor group."
        )


def _new_group(kind: str, groups: Sequence[Sequence[int]]) -> ParallelGroup:
    # new_group is collective: every rank creates every group, also those it is not in.
    rank = dist.get_rank()
    mine: ParallelGroup | None = None
    for ranks in groups:
        process_group = None
        if len(ranks) > 1:
            # torch would give the group its own default, not the world's timeout.
            process_group = dist.new_group(list(ranks), timeout=_state.timeout)
        if rank in ranks:
            mine = ParallelGroup(kind, tuple(ranks), list(ranks).index(rank), process_group)
    assert mine is not None, f"rank {rank} is in no {kind} group of {groups}"
    return mine


def destroy_model_parallel() -> None:
    """Forgets the tensor, expert and pipeline groups; does nothing where there are none."""
    for group in (_state.tensor, _state.expert, _state.pipeline):
        if group is not None and group.process_group is not None and _in_known_world():
            dist.destroy_process_group(group.process_group)
    _state.tensor = _state.expert = _state.pipeline = _state.sizes = None


def destroy_distributed_environment() -> None:
    """Leaves the world, groups included; a later `init_distributed_environment` starts anew.

    A world that was only adopted stays: whoever started it ends it.
    """
    destroy_model_parallel()
    if _state.owned and _in_known_world():
        dist.destroy_process_group()
    _forget()


def _group(kind: str) -> ParallelGroup:
    group: ParallelGroup | None = getattr(_state, kind)
    if group is not None:
        return group
    world_size = from_launcher(None, "WORLD_SIZE", 1)
    if _state.environment is not None:
        world_size = _state.environment.world_size
    if world_size > 1:
        # A world of one would be assumed here, and each rank would silently hold the whole model.
        raise RuntimeError(
            f"this is one of {world_size} processes and the model parallel groups are not set: "
            f"call init_distributed_environment() and initialize_model_parallel() first."
        )
    return ParallelGroup(kind, (0,), 0, None)


def get_tensor_parallel_group() -> ParallelGroup:
    """The ranks that split each layer with this one; this process alone if nothing was set up."""
    return _group("tensor")


def get_expert_parallel_group() -> ParallelGroup:
    """The ranks that share a layer's experts with this one."""
    return _group("expert")


def get_pipeline_parallel_group() -> ParallelGroup:
    """The ranks that hold the model's other stages for this one."""
    return _group("pipeline")


def get_tensor_parallel_rank() -> int:
    """This process's place in its tensor group, from 0."""
    return _group("tensor").rank


def get_tensor_parallel_world_size() -> int:
    """How many ranks split each layer."""
    return _group("tensor").world_size


def get_expert_parallel_rank() -> int:
    """This process's place in its expert group, from 0."""
    return _group("expert").rank


def get_expert_parallel_world_size() -> int:
    """How many ranks share the experts of a layer."""
    return _group("expert").world_size


def get_pipeline_parallel_rank() -> int:
    """This process's stage, from 0."""
    return _group("pipeline").rank


def get_pipeline_parallel_world_size() -> int:
    """How many stages the model has."""
    return _group("pipeline").world_size
