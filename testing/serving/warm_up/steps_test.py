"""The steps of a warm-up meet what an engine's steps meet, and change nothing that anyone holds."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch

from layers.kernels.attention.problem import AttentionSpec
from layers.kernels.attention.tiling import choose_splits, choose_tiles
from layers.kernels.mla import tiling as mla
from layers.serving.messages import SamplingParams
from layers.serving.scheduling.scheduler import Limits
from layers.serving.workers.warm_up import Shape, shapes, warm_up
from testing.serving import reference
from testing.serving.engines import make_bench

# An H200: its multiprocessors, and the bytes of shared memory that a program can have.
MULTIPROCESSORS, SHARED = 132, 227 * 1024
LIMITS = [
    (Limits(64, 1024, 16), 512),
    (Limits(128, 1000, 16), 3000),
    (Limits(7, 300, 1), 96),
    (Limits(64, 2048, 64, draft_tokens=3), 4096),
    (Limits(1, 8, 16, draft_tokens=5), 40),
]


def every_step(limits: Limits, context: int) -> Iterator[Shape]:
    """Steps by the dozen for each power of two, of every width or nearly."""
    full = limits.pages_for(context)
    around = sorted({n + d for n in (2**i for i in range(13)) for d in (-1, 0, 1, n // 3)} - {0})
    for texts, tokens in itertools.product(around, around):
        if texts > limits.max_running or tokens > context or texts * tokens > limits.step_tokens:
            continue
        least = -(-tokens // limits.page_size)
        for width in {least, *range(least, full + 1, max(1, full // 40)), full}:
            prefix = min(context - tokens, width * limits.page_size - tokens)
            for mode in modes(tokens, limits):
                yield Shape(mode, texts, tokens, prefix, width)


def modes(tokens: int, limits: Limits) -> list[str]:
    drafted = 1 + limits.draft_tokens
    kinds = {"extend": True, "decode": tokens == 1, "draft": tokens == drafted > 1}
    return [kind for kind, holds in kinds.items() if holds]


def attention_kernels(shape: Shape, spec: AttentionSpec, page_size: int) -> set[object]:
    """What is compiled for a step: of keys and values, and of their parts."""
    rows = shape.tokens * spec.group
    tiles = choose_tiles(spec, shape.mode, rows)
    programs = -(-rows // tiles.rows) * spec.num_kv_heads * shape.texts
    splits = choose_splits(programs, shape.width * page_size, MULTIPROCESSORS)
    parts = [("parts", (splits - 1).bit_length())] if splits > 1 else []
    return {(tiles, shape.mode == "draft", splits > 1), *parts}


def latent_kernels(shape: Shape, heads: int, page_size: int) -> set[object]:
    """The same of latents."""
    rows = shape.tokens * heads
    tiles = mla.choose_tiles(rows, SHARED)
    programs = -(-rows // tiles.rows) * shape.texts
    places = MULTIPROCESSORS * tiles.resident
    splits = mla.choose_splits(programs, shape.width * page_size, tiles.keys, places)
    parts = [("parts", max(2, (splits - 1).bit_length()))] if splits > 1 else []
    return {(tiles, shape.mode == "draft", splits > 1), *parts}


def matmul_kernels(shape: Shape, experts: int, chosen: int) -> set[object]:
    """Of all tokens together, which have thresholds at 16 and 64 rows, and pairs an expert."""
    rows = shape.texts * shape.tokens
    each = rows * chosen // experts
    return {("rows", (rows > 16) + (rows > 64)), ("pairs", (each > 16) + (each > 64))}


@pytest.mark.parametrize(("limits", "context"), LIMITS)
def test_every_kernel_that_a_step_takes_was_met(limits: Limits, context: int) -> None:
    specs = [
        AttentionSpec(torch.bfloat16, kv_heads * group, kv_heads, 64, 64, 0.125)
        for kv_heads, group in ((1, 1), (2, 2), (8, 1), (8, 4), (4, 8))
    ]
    page = limits.page_size
    kinds: list[Callable[[Shape], set[object]]] = [
        *[partial(attention_kernels, spec=spec, page_size=page) for spec in specs],
        *[partial(latent_kernels, heads=heads, page_size=page) for heads in (1, 4, 16, 128)],
        *[partial(matmul_kernels, experts=e, chosen=c) for e, c in ((1, 1), (8, 2), (256, 8))],
    ]
    warm, every = list(shapes(limits, context)), list(every_step(limits, context))

    for number, kernels in enumerate(kinds):
        met = {kernel for shape in warm for kernel in kernels(shape)}
        for shape in every:
            assert kernels(shape) <= met, f"kind {number}: {shape} takes another kernel"


@pytest.mark.parametrize(("limits", "context"), LIMITS)
def test_a_step_is_one_that_the_engine_could_make(limits: Limits, context: int) -> None:
    for shape in shapes(limits, context):
        assert 1 <= shape.texts <= limits.max_running, shape
        assert shape.texts * shape.tokens <= limits.step_tokens, shape
        assert shape.prefix + shape.tokens <= shape.width * limits.page_size, shape
        assert shape.width <= limits.pages_for(context), shape


@pytest.mark.parametrize("draft_tokens", [0, 3])
def test_it_leaves_no_trace(draft_tokens: int) -> None:
    bench = make_bench(draft_tokens=draft_tokens, num_pages=65, step_tokens=96)
    prompts = {choice: list(range(1 + choice, 40)) for choice in range(12)}
    params = SamplingParams(temperature=1, seed=5, max_tokens=20, ignore_eos=True)
    # Half of the texts begin before: their pages are in use.
    for choice in range(6):
        bench.add(choice, prompts[choice], params)
    for _ in range(3):
        bench.step()

    steps = warm_up(bench.runner, bench.scheduler.limits, 200)

    assert steps > 10
    for choice in range(6, 12):
        bench.add(choice, prompts[choice], params)
    bench.run()
    for choice, prompt in prompts.items():
        want = reference.generate(prompt, params, bench.model.config)
        assert bench.results[choice].ids == want.ids
