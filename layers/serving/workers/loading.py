"""A rank's model, caches and graphs, as the options say."""

from __future__ import annotations

import importlib
import inspect
import os
from dataclasses import dataclass
from typing import Any

import torch

from layers.distributed.parallel_state import (
    get_tensor_parallel_group,
    init_distributed_environment,
    initialize_model_parallel,
)
from layers.serving.options import OptionError, Options
from layers.serving.running.graphs import GraphPlan
from layers.serving.running.kernels import KernelWatch
from layers.serving.running.model import Model
from layers.serving.running.runner import Runner
from layers.serving.scheduling.scheduler import Limits
from layers.serving.workers.endpoints import Endpoints

DEFAULT_CPU_TOKENS = 32768


@dataclass(frozen=True)
class Loaded:
    """What a rank runs with.

    Attributes:
        runner: the model with its caches.
        limits: of the scheduler's steps.
        num_pages: of the caches, page 0 included.
        context_length: tokens of a text, the generated ones included.
    """

    runner: Runner
    limits: Limits
    num_pages: int
    context_length: int


def load(options: Options, rank: int, endpoints: Endpoints, kernels: KernelWatch) -> Loaded:
    """Joins the other ranks, loads this one's share of the model, and makes its caches.

    Kernels that a GPU's graphs compile are counted by `kernels`.

    Raises:
        OptionError: options that the model or the machine cannot follow.
        ValueError: from the loader, what is wrong with the checkpoint.
    """
    torch.set_num_threads(options.threads_per_rank)
    device = _device(options, rank)
    if device.type == "cuda":
        kernels.install()
    if options.tensor_parallel > 1:
        init_distributed_environment(
            world_size=options.tensor_parallel,
            rank=rank,
            local_rank=rank,
            init_method=endpoints.meeting,
            backend="gloo" if device.type == "cpu" else None,
        )
        initialize_model_parallel(options.tensor_parallel, options.expert_parallel)
    with torch.inference_mode():
        model: Model = _loader(options.loader)(
            options.model,
            device=device,
            params_dtype=None if options.dtype == "auto" else getattr(torch, options.dtype),
            backend=options.backends,
            with_draft=options.num_drafts > 0,
        )
        loaded = _with_caches(options, model)
    if rank == 0 and options.kv_cache_dtype != "float8_e4m3fn":
        _tell_of_cache_scales(model)
    return loaded


def _tell_of_cache_scales(model: Model) -> None:
    """A cache of codes changes what is computed, so that nobody gets one who did not ask."""
    if getattr(model.config, "has_cache_scales", False):
        print(
            "The checkpoint's quantization_config says that it was calibrated for an FP8 cache, "
            "and this one is of 16 bits: --kv-cache-dtype float8_e4m3fn takes half its memory.",
            flush=True,
        )


def _with_caches(options: Options, model: Model) -> Loaded:
    drafts = options.num_drafts
    if drafts and model.draft is None:
        raise OptionError(
            "--speculative mtp: the checkpoint has no next-token-prediction module "
            "(num_nextn_predict_layers in its config.json): drop the option"
        )
    limits = Limits(
        max_running=options.max_running,
        step_tokens=options.step_tokens,
        page_size=options.page_size,
        draft_tokens=drafts,
        use_prefix_cache=options.prefix_cache,
    )
    dtype = None
    if options.kv_cache_dtype != "auto":
        dtype = getattr(torch, options.kv_cache_dtype)
    num_pages = _num_pages(options, model, dtype)
    context = _context_length(options, model, limits, num_pages)
    graphs = None
    if options.cuda_graphs and model.device.type == "cuda":
        sizes = _graph_sizes(options.max_running)
        graphs = GraphPlan(sizes, limits.pages_for(context), options.page_size, drafts)
    runner = Runner(
        model, num_pages, options.page_size, dtype=dtype, with_draft=drafts > 0, graphs=graphs
    )
    return Loaded(runner, limits, num_pages, context)


def _loader(name: str) -> Any:
    module, function = name.split(":")
    try:
        loader = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(f"--loader {name} cannot be imported: {error}") from error
    given = dict.fromkeys(("device", "params_dtype", "backend", "with_draft"))
    try:
        inspect.signature(loader).bind(None, **given)
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"--loader {name} takes other arguments ({error}): wanted a function of a folder and "
            f"of {', '.join(given)}, such as layers.models.load:load_model"
        ) from error
    return loader


def _device(options: Options, rank: int) -> torch.device:
    gpus = torch.cuda.device_count()
    name = options.device
    if name == "auto":
        name = "cuda" if gpus >= options.tensor_parallel else "cpu"
    if name == "cpu":
        return torch.device("cpu")
    if gpus < options.tensor_parallel:
        raise OptionError(
            f"--device cuda with --tensor-parallel {options.tensor_parallel} needs as many GPUs, "
            f"and torch sees {gpus}"
        )
    torch.cuda.set_device(rank)
    return torch.device("cuda", rank)


def _num_pages(options: Options, model: Model, dtype: torch.dtype | None) -> int:
    tokens = options.kv_tokens
    if tokens is None and model.device.type == "cuda":
        a_token = _bytes_per_token(options, model, dtype)
        free, _ = torch.cuda.mem_get_info(model.device)
        tokens = _smallest_of_ranks(int(free * options.memory_fraction) // a_token, model.device)
    tokens = tokens or DEFAULT_CPU_TOKENS
    _require_memory(options, model, dtype, tokens)
    return tokens // options.page_size + 1


def _require_memory(options: Options, model: Model, dtype: torch.dtype | None, tokens: int) -> None:
    """The allocator would say how many bytes it lacks, and not for what."""
    if model.device.type == "cuda":
        memory = torch.cuda.mem_get_info(model.device)[1]
    else:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    a_token = _bytes_per_token(options, model, dtype)
    if tokens * a_token > memory:
        raise OptionError(
            f"--kv-tokens {tokens} takes {tokens * a_token:,} bytes, and {model.device} has "
            f"{memory:,} in all: wanted fewer than {memory // a_token} tokens"
        )


def _bytes_per_token(options: Options, model: Model, dtype: torch.dtype | None) -> int:
    drafts = model.draft.cache_bytes_per_token(dtype) if options.num_drafts else 0
    return model.cache_bytes_per_token(dtype) + drafts


def _smallest_of_ranks(value: int, device: torch.device) -> int:
    group = get_tensor_parallel_group()
    if group.process_group is None:
        return value
    seen = torch.tensor([value], dtype=torch.int64, device=device)
    torch.distributed.all_reduce(seen, op=torch.distributed.ReduceOp.MIN, group=group.process_group)
    return int(seen)


def _context_length(options: Options, model: Model, limits: Limits, num_pages: int) -> int:
    # Drafts stand behind a text's last token, and have places too.
    most = model.config.max_position - limits.draft_tokens
    wanted = options.context_length
    if wanted is not None and wanted > most:
        raise OptionError(
            f"--context-length is {wanted}, and the model takes {most} at most (max_position "
            f"{model.config.max_position}, less {limits.draft_tokens} drafts)"
        )
    fits = (num_pages - 1) * limits.page_size - limits.lookahead
    if fits < min(wanted or 2, 2):
        raise OptionError(f"the cache of {num_pages - 1} pages is too small: raise --kv-tokens")
    if wanted is not None and wanted > fits:
        raise OptionError(
            f"--context-length is {wanted}, and the cache holds a text of {fits} tokens at most: "
            f"raise --kv-tokens, or --memory-fraction"
        )
    return min(wanted or most, fits)


def _graph_sizes(max_running: int) -> tuple[int, ...]:
    sizes = {size for size in (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128) if size < max_running}
    return tuple(sorted(sizes | {max_running}))
