"""Speculation changes the steps and nothing else; drafts are those of the module, all of them."""

import random
from typing import Any

import pytest

from layers.serving.messages import SamplingParams
from testing.serving import reference
from testing.serving.engines import Bench, make_bench


def run(draft_tokens: int, params: SamplingParams, **options: Any) -> tuple[Bench, list[list[int]]]:
    bench = make_bench(draft_tokens=draft_tokens, **options)
    rng = random.Random(3)
    prompts = [[rng.randrange(1, 64) for _ in range(rng.randrange(1, 70))] for _ in range(12)]
    for choice, prompt in enumerate(prompts):
        bench.add(choice, prompt, params)
    bench.run()
    return bench, prompts


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_are_the_same_with_and_without(temperature: float) -> None:
    params = SamplingParams(temperature=temperature, seed=11, max_tokens=60)
    plain, _ = run(0, params)
    for draft_tokens in (1, 2, 5):
        bench, _ = run(draft_tokens, params)
        assert [r.ids for r in bench.results.values()] == [r.ids for r in plain.results.values()]
        assert bench.engine.counts.accepted > 0


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("draft_tokens", [1, 4])
def test_each_verification_accepts_what_the_module_had_right(
    draft_tokens: int, temperature: float, page_size: int
) -> None:
    """Known exactly: a wrong hidden state, token or place given to the module would change it."""
    params = SamplingParams(temperature=temperature, seed=5, max_tokens=50, ignore_eos=True)
    bench, prompts = run(draft_tokens, params, page_size=page_size, num_pages=2000)
    assert bench.scheduler.num_preemptions == 0
    _require_counts(bench, prompts, draft_tokens, params)


def _require_counts(
    bench: Bench, prompts: list[list[int]], draft_tokens: int, params: SamplingParams
) -> None:
    want: list[tuple[int, int]] = []
    for choice, prompt in enumerate(prompts):
        answer = bench.results[choice].ids
        want += reference.verifications(prompt, answer, draft_tokens, params, bench.model.config)
    counts = bench.engine.counts
    assert sorted(counts.accept_lengths) == sorted(given for given, _ in want)
    assert counts.accepted == sum(accepted for _, accepted in want)
    assert counts.drafted == draft_tokens * len(want)


def test_a_prefix_has_the_modules_entries_too() -> None:
    """The second text goes on otherwise right behind a page: the module's last entry differs."""
    params = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
    common = [1 + index % 50 for index in range(48)]
    prompts = [[*common, 7, 8], [*common, 7, 9], [*common, 3, 3], common[:47]]
    bench = make_bench(draft_tokens=3)
    want: list[int] = []
    for choice, prompt in enumerate(prompts):
        bench.add(choice, prompt, params)
        bench.run()
        answer = bench.results[choice].ids
        want += reference.accept_lengths(prompt, answer, 3, params, bench.model.config)
    assert bench.scheduler.num_prefix_hits == 48 + 32 + 32
    assert bench.engine.counts.accept_lengths == want


def test_an_end_within_the_drafts_ends_the_text_there() -> None:
    params = SamplingParams(temperature=1.0, seed=1, max_tokens=200)
    bench, prompts = run(5, params)
    ends = [result.finish for result in bench.results.values()]
    assert "stop" in ends
    for choice, prompt in enumerate(prompts):
        want = reference.generate(prompt, params, bench.model.config)
        assert (bench.results[choice].ids, bench.results[choice].finish) == (want.ids, want.finish)
    # Drafts that were right behind the end are neither given nor counted.
    _require_counts(bench, prompts, 5, params)


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 4, 5])
def test_no_text_gets_more_tokens_than_it_may(max_tokens: int) -> None:
    bench, _ = run(4, SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True))
    assert {len(result.ids) for result in bench.results.values()} == {max_tokens}
