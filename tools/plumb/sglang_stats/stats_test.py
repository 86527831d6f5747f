"""The data beside the totals that its source gives."""

from collections import Counter

from tools.plumb.sglang_stats.stats import measured


def test_the_data_is_what_was_published() -> None:
    found = measured()
    cuda = [row for row in found if row.backend == "cuda"]
    assert (len(found), len(cuda), len({row.path for row in cuda})) == (613, 432, 400)
    assert len({(row.path, row.suite) for row in found}) == 613
    assert len({row.suite for row in found}) == 22
    by_stage: Counter[str] = Counter()
    for row in cuda:
        by_stage[row.suite.partition("-test-")[0]] += row.seconds
    assert by_stage == {
        "base-a": 262,
        "base-b": 25_437,
        "base-c": 15_391,
        "extra-a": 14_857,
        "extra-b": 15_658,
    }
