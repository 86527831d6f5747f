"""Tokens a second of the engine without a server, against a bare loop over the same model."""

import statistics

from tokenizers import Tokenizer

from layers.models.load import load_model
from testing.e2e.checkpoints.folders import folder
from testing.e2e.smokes.figures import Figures
from testing.e2e.smokes.seed import some_problems
from testing.harness.device import device
from testing.perf.serving.bare import BareLoop
from testing.perf.serving.offline import OfflineEngine

TEXTS, TOKENS, PAIRS = 64, 24, 5
LONGEST = 64


def test_the_engine_takes_little_more_than_its_model() -> None:
    place = folder("dense")
    tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    prompts = [tokenizer.encode(p.prompt).ids for p in some_problems(TEXTS)]
    model = load_model(place, device=device())
    engine, bare = OfflineEngine(model, TEXTS, LONGEST), BareLoop(model)
    engine.run(prompts, TOKENS), bare.run(prompts, TOKENS)
    ratios, rates = [], []
    for _ in range(PAIRS):
        # One right after the other: what slows the machine slows both.
        course = bare.run(prompts, TOKENS)
        seconds, generated = engine.run(prompts, TOKENS)
        assert generated == course.num_tokens == TEXTS * TOKENS
        ratios.append(seconds / course.seconds)
        rates.append(generated / seconds)
    figures = Figures("offline_throughput", "dense", assertions=1)
    figures.seen["tokens_per_second"] = statistics.median(rates)
    figures.ratio("seconds_over_bare_loop", statistics.median(ratios))
    figures.finish()
