"""Which texts a step takes, and whose pages."""

from typing import Any

import pytest
import torch

from layers.serving.memory.page_pool import PagePool
from layers.serving.messages import SamplingParams
from layers.serving.running.batch import Batch
from layers.serving.scheduling.request import Request
from layers.serving.scheduling.scheduler import Limits, Scheduler
from layers.serving.scheduling.step import Step
from testing.serving import reference
from testing.serving.engines import make_bench


def request(choice: int, length: int, max_tokens: int = 8) -> Request:
    tokens = [choice * 100 + index for index in range(length)]
    return Request(choice, tokens, length, SamplingParams(max_tokens=max_tokens))


def scheduler(num_pages: int = 100, **limits: Any) -> Scheduler:
    settings: dict[str, Any] = {"max_running": 4, "step_tokens": 20, "page_size": 4, **limits}
    return Scheduler(Limits(**settings), PagePool(num_pages))


def run(s: Scheduler, step: Step | None) -> Step:
    """As the engine does: each part is computed, and what reaches its end gets a token."""
    assert step is not None
    for part in step.parts:
        if part.is_sampled:
            part.request.tokens.append(999)
        s.computed(part.request, part.end)
    return step


def shape(step: Step) -> list[tuple[int, int, int]]:
    return [(part.request.choice, part.start, part.count) for part in step.parts]


def test_nothing_to_do_is_no_step() -> None:
    assert scheduler().plan() is None


def test_prompts_share_a_step_and_the_last_is_cut() -> None:
    s = scheduler()
    for choice, length in enumerate([6, 6, 30]):
        s.add(request(choice, length))
    assert shape(run(s, s.plan())) == [(0, 0, 6), (1, 0, 6), (2, 0, 8)]
    # The two that decode go first, and the prompt takes what is left.
    step = run(s, s.plan())
    assert shape(step) == [(0, 6, 1), (1, 6, 1), (2, 8, 18)]
    assert step.mode == "extend"
    assert shape(run(s, s.plan())) == [(0, 7, 1), (1, 7, 1), (2, 26, 4)]
    step = run(s, s.plan())
    assert shape(step) == [(0, 8, 1), (1, 8, 1), (2, 30, 1)]
    assert step.mode == "decode"


def test_no_more_texts_than_may_run() -> None:
    s = scheduler(max_running=2)
    for choice in range(3):
        s.add(request(choice, 3))
    assert [part.request.choice for part in run(s, s.plan()).parts] == [0, 1]
    s.remove(s.running[0])
    assert shape(run(s, s.plan())) == [(1, 3, 1), (2, 0, 3)]


def test_the_last_to_come_gives_up_its_pages() -> None:
    s = scheduler(num_pages=6, use_prefix_cache=0)
    for choice in range(2):
        s.add(request(choice, 7, max_tokens=10))
    run(s, s.plan())
    run(s, s.plan())
    # Each fills two pages of five; the first takes the fifth, the second has to go.
    assert shape(run(s, s.plan())) == [(0, 8, 1)]
    assert s.num_preemptions == 1
    assert [r.choice for r in s.waiting] == [1]
    assert s.waiting[0].computed == 0 and not s.waiting[0].pages
    assert len(s.waiting[0].tokens) == 9, "what was generated is kept"
    s.remove(s.running[0])
    assert shape(run(s, s.plan())) == [(1, 0, 9)]


def test_idle_prefixes_go_before_a_text_does() -> None:
    s = scheduler(num_pages=6)
    s.add(request(0, 8, max_tokens=1))
    run(s, s.plan())
    s.remove(s.running[0])
    assert s.pool.num_idle == 2
    s.add(request(1, 15, max_tokens=4))
    run(s, s.plan())
    for _ in range(2):
        run(s, s.plan())
    assert s.num_preemptions == 0
    assert s.pool.num_idle == 0


def test_a_text_waits_until_all_of_its_prompt_has_room() -> None:
    s = scheduler(num_pages=6, use_prefix_cache=0)
    s.add(request(0, 12))
    s.add(request(1, 12))
    assert shape(run(s, s.plan())) == [(0, 0, 12)]
    assert shape(run(s, s.plan())) == [(0, 12, 1)]


def test_a_text_too_long_for_the_whole_cache_is_refused() -> None:
    s = scheduler(num_pages=4)
    with pytest.raises(ValueError, match=r"a text of 13 tokens needs 4 pages and the cache has 3"):
        s.add(request(0, 5, max_tokens=8))
    s.add(request(0, 4, max_tokens=8))


def test_drafts_need_room_behind_the_text() -> None:
    limits = Limits(max_running=4, step_tokens=20, page_size=4, draft_tokens=3)
    assert limits.pages_for(6) == 3  # 6 and twice 3
    assert limits.pages_for(7) == 4


def test_drafts_that_a_step_has_no_room_for_are_left_out() -> None:
    s = scheduler(step_tokens=10, draft_tokens=3)
    for choice in range(4):
        s.add(request(choice, 2))
    run(s, s.plan())
    for text in s.running:
        text.drafts = [7, 8, 9]
    step = run(s, s.plan())
    # Four rows each for two texts; of the room for two more each of the others takes one.
    assert [(p.request.choice, p.count, p.drafts) for p in step.parts] == [
        (0, 1, (7, 8, 9)),
        (1, 1, (7, 8, 9)),
        (2, 1, ()),
        (3, 1, ()),
    ]
    assert step.mode == "extend"


@pytest.mark.parametrize("draft_tokens", [1, 3])
@pytest.mark.parametrize("step_tokens", [5, 9, 33])
def test_no_step_is_larger_than_it_may_be(step_tokens: int, draft_tokens: int) -> None:
    bench = make_bench(step_tokens=step_tokens, max_running=8, draft_tokens=draft_tokens)
    sizes: list[int] = []
    run_target = bench.runner.target

    def target(batch: Batch) -> torch.Tensor:
        sizes.append(len(batch.input_ids))
        return run_target(batch)

    bench.runner.target = target  # type: ignore[method-assign]
    params = SamplingParams(temperature=1, seed=3, max_tokens=20, ignore_eos=True)
    prompts = {choice: list(range(1, 4 + 5 * choice)) for choice in range(10)}
    for choice, prompt in prompts.items():
        bench.add(choice, prompt, params)
    bench.run()

    assert max(sizes) == step_tokens, "as much as it may be, and no more"
    assert bench.engine.counts.accepted > 0
    for choice, prompt in prompts.items():
        want = reference.generate(prompt, params, bench.model.config)
        assert bench.results[choice].ids == want.ids


def test_an_aborted_text_leaves_nothing() -> None:
    bench = make_bench(use_prefix_cache=False)
    params = SamplingParams(temperature=0, max_tokens=50, ignore_eos=True)
    for choice in range(3):
        bench.add(choice, [3] * 40, params)
    for _ in range(5):
        bench.step()
    ended = [bench.engine.abort(choice) for choice in range(3)]
    assert [e is not None and e[1].finish for e in ended] == ["abort"] * 3
    assert bench.engine.is_idle
    assert bench.pool.num_free == bench.pool.num_usable
    assert bench.engine.abort(0) is None, "it is no error to come late"


def test_a_number_in_use_is_refused() -> None:
    bench = make_bench()
    bench.add(1, [3], SamplingParams())
    with pytest.raises(ValueError, match="choice 1 is in the making already"):
        bench.add(1, [3], SamplingParams())
