"""Every text is what the model gives alone: whatever shares its batch, pages, prefix or steps."""

import random
from typing import Any

import pytest

from layers.serving.messages import SamplingParams
from testing.serving import reference
from testing.serving.engines import Bench, make_bench

VOCABULARY = 64
# Few tokens a step: prompts come in parts. Few pages: texts are put back. Pages of 1: every place.
BENCHES: dict[str, dict[str, Any]] = {
    "roomy": {},
    "parts": {"step_tokens": 24, "max_running": 6},
    "crowded": {"num_pages": 17, "step_tokens": 40, "max_running": 8},
    "page_1": {"page_size": 1, "num_pages": 200, "step_tokens": 60},
    "no_prefixes": {"use_prefix_cache": False, "step_tokens": 30, "max_running": 7},
    "one_by_one": {"max_running": 1},
}


def random_params(rng: random.Random) -> SamplingParams:
    return SamplingParams(
        temperature=rng.choice([0.0, 0.5, 1.0]),
        top_p=rng.choice([1.0, 0.8]),
        top_k=rng.choice([0, 4]),
        seed=rng.randrange(2**63),
        max_tokens=rng.randrange(1, 50),
        ignore_eos=rng.random() < 0.5,
    )


def fill(bench: Bench, seed: int, count: int = 20) -> dict[int, tuple[list[int], SamplingParams]]:
    """Texts of any length, many with a common beginning, that come while others run."""
    rng = random.Random(seed)
    common = [rng.randrange(1, VOCABULARY) for _ in range(60)]
    jobs = {}
    for choice in range(count):
        own = [rng.randrange(1, VOCABULARY) for _ in range(rng.randrange(1, 60))]
        jobs[choice] = (common[: rng.randrange(61)] + own, random_params(rng))
        bench.add(choice, *jobs[choice])
        for _ in range(rng.randrange(4)):
            bench.step()
    bench.run()
    return jobs


def require_exact(bench: Bench, jobs: dict[int, tuple[list[int], SamplingParams]]) -> None:
    for choice, (prompt, params) in jobs.items():
        want = reference.generate(prompt, params, bench.model.config)
        got = bench.results[choice]
        assert (got.ids, got.finish) == (want.ids, want.finish), f"choice {choice}"
    assert bench.pool.num_free + bench.pool.num_idle == bench.pool.num_usable


@pytest.mark.parametrize("draft_tokens", [0, 1, 3])
@pytest.mark.parametrize("name", BENCHES)
def test_texts_are_those_of_the_model_alone(name: str, draft_tokens: int) -> None:
    bench = make_bench(**BENCHES[name], draft_tokens=draft_tokens)
    require_exact(bench, fill(bench, seed=len(name)))
    if name == "crowded":
        assert bench.scheduler.num_preemptions > 0
    if name == "no_prefixes":
        assert bench.scheduler.num_prefix_hits == 0


@pytest.mark.parametrize("draft_tokens", [0, 2])
def test_a_prefix_is_computed_once(draft_tokens: int) -> None:
    bench = make_bench(draft_tokens=draft_tokens)
    prompt = [1 + index % 60 for index in range(100)]
    greedy = SamplingParams(temperature=0, max_tokens=1)
    bench.add(0, prompt, greedy)
    bench.run()
    assert bench.model.num_rows == 100
    bench.add(1, prompt, greedy)
    bench.run()
    # Six whole pages of 16; the rest of the text and its last token are computed again.
    assert bench.model.num_rows == 100 + 4
    assert bench.scheduler.num_prefix_hits == 96
    assert bench.results[1].ids == bench.results[0].ids


def test_a_prompt_of_whole_pages_still_computes_its_last_token() -> None:
    bench = make_bench()
    prompt = [5] * 32
    for choice in (0, 1):
        bench.add(choice, prompt, SamplingParams(temperature=0, max_tokens=3, ignore_eos=True))
        bench.run()
    assert bench.scheduler.num_prefix_hits == 16
    assert bench.results[0].ids == bench.results[1].ids


def test_an_answer_is_a_prefix_of_the_talk_that_goes_on() -> None:
    bench = make_bench()
    prompt = [7] * 10
    bench.add(0, prompt, SamplingParams(temperature=0, max_tokens=40, ignore_eos=True))
    bench.run()
    talk = prompt + bench.results[0].ids
    bench.add(1, [*talk, 9], SamplingParams(temperature=0, max_tokens=1))
    bench.run()
    # The last generated token was never computed: 49 of 50, of which three pages are whole.
    assert bench.scheduler.num_prefix_hits == 48
