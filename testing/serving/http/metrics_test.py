"""What the metrics count from."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from typing import cast

from layers.serving.api.backend import Backend
from layers.serving.api.choices import Job, collect, run
from layers.serving.api.metrics import Metrics
from layers.serving.messages import SamplingParams, TextDelta


class _OneText:
    """A backend whose every text is one delta."""

    async def generate(
        self, prompt: list[int], params: SamplingParams, stops: list[str]
    ) -> AsyncGenerator[TextDelta, None]:
        yield TextDelta(0, "text", 1, [], "stop")


def test_seconds_count_from_the_request_and_not_from_its_tokens() -> None:
    metrics = Metrics()
    params = SamplingParams(
        temperature=0.0, top_p=1.0, top_k=0, seed=1, logprobs=None, max_tokens=1, ignore_eos=False
    )
    job = Job([[1]], 2, params, [], began=time.monotonic() - 100)

    asyncio.run(collect(run(cast(Backend, _OneText()), metrics, job), 2))

    text = metrics.text().decode()
    for name, count in (("time_to_first_token_seconds", 2), ("request_seconds", 1)):
        found = re.search(rf"^plumbline_{name}_sum (\S+)", text, re.MULTILINE)
        assert found, text
        assert 100 * count <= float(found[1]) < 150 * count
