"""The trim of the H100 suites, asked of the workspace that models them, through a real Bazel."""

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.plumb.cache import folder_for
from tools.plumb.cells import load
from tools.plumb.deps.own_bazel import own_bazel
from tools.plumb.revision import Loader
from tools.plumb.trees.git import Repository
from tools.plumb.trim import ground as grounds
from tools.plumb.trim.answer import Answer, answer
from tools.plumb.trim.change import Change, Merge
from tools.plumb.trim.ground import Ground
from tools.plumb.trim.optimise.choice import choose
from tools.plumb.trim.optimise.result import Choice, Wish
from tools.plumb.trim.outcome import State, Verdict
from tools.plumb.trim.propose import dead, servers, twins
from tools.plumb.trim.replay.plan import AUTHOR, DROP, MERGE, NEW, WORKSPACE, options
from tools.plumb.trim.run import merges_of

TODAY = datetime.date(2027, 1, 1)
TRITON, FLASHINFER, FLASHMLA, BF16 = DROP


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with (
        own_bazel(tmp_path_factory.mktemp("replay")) as (program, caches),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("XDG_CACHE_HOME", str(caches))
        patch.setenv("PLUMBLINE_BAZEL", str(program))
        loader = Loader(Repository.find(WORKSPACE), WORKSPACE, folder_for(WORKSPACE), print)
        yield grounds.of(load.of_workspace(loader))


@pytest.fixture
def author(ground: Ground) -> Answer:
    return answer(ground, Change(DROP, (Merge(MERGE),), NEW), (), TODAY)


def seconds(found: Answer) -> dict[str, int]:
    return {suite: saving.change.seconds for suite, saving in found.suites.items()}


def gpu_seconds(choice: Choice, ground: Ground) -> int:
    """Of all tests of the pool that the trim is about, less what the choice lets go."""
    change = Change(choice.change.drop, choice.change.merges, NEW)
    return answer(ground, change, (), TODAY).pools["h100"].change.gpu_seconds


def test_it_saves_what_its_author_counted(author: Answer) -> None:
    found = seconds(author)
    assert {suite: found[suite] for suite in AUTHOR} == AUTHOR
    assert author.suites["base-c-test-4-gpu-h100"].change.gpu_seconds == -880


def test_it_names_all_that_is_lost(author: Answer) -> None:
    lost = {str(c.cell) for c in author.of_state(State.LOST)}
    assert lost == {
        "attn.triton.accuracy.mmlu on sm90, per-commit",
        "mla.mtp.accept_length.flashinfer on sm90, per-commit",
        "models.gpt_oss_120b.bf16_upcast on sm90, per-commit",
    }
    (unmet,) = author.unmet
    assert str(unmet.cell) == "quant.int8.linear.numerics on sm100, per-commit"
    assert unmet.missing is not None and "get_device_sm() >= 100" in unmet.missing.sentence
    assert len(author.refused) == 5


def test_it_doubts_the_two_equivalences(author: Answer) -> None:
    (weak,) = author.of_state(State.WEAKENED)
    assert str(weak.cell) == "attn.triton.throughput on sm90, per-commit"
    assert weak.missing is not None and weak.missing.sentence == "only label-gated"
    (gated,) = author.doubts[TRITON]
    assert "bench_serving_1gpu_test" in gated and "only labelled" in gated
    figure, case = author.doubts[BF16]
    assert "0.58 against 0.5" in figure and "gpt_oss_120b_mxfp4_test" in figure
    assert "test_long_answers_end" in case


def test_it_says_of_each_deletion_who_keeps_what(author: Answer) -> None:
    verdicts = {d.test.label: d.verdict for d in author.dropped}
    assert verdicts == {
        TRITON: Verdict.LOSES,
        FLASHINFER: Verdict.LOSES,
        FLASHMLA: Verdict.SAFE,
        BF16: Verdict.LOSES,
        MERGE[1]: Verdict.SAFE,
    }
    safe = next(d for d in author.dropped if d.test.label == FLASHMLA)
    keepers = {test.label for cell in safe.cells for test in cell.after}
    assert keepers == {"//mla:int8_deepseek_v3_test_base_b_1_gpu_large"}


def test_it_finds_the_merge_the_dead_class_and_the_twins(ground: Ground) -> None:
    (merge,) = servers.candidates(ground.sources)
    assert set(merge.tests) == set(MERGE)
    assert any("--detokenizer-worker-num 4" in line for line in merge.evidence)

    found = [c.title for c in dead.candidates(ground.sources, ground.graph)]
    assert found == [
        "mla/int8_deepseek_v3_test.py:40: TestBlockInt8 never runs in CI (1 of 3 cases)"
    ]

    pairs = {
        tuple(sorted(Path(s.path).stem for s in (t.one, t.other))): t
        for t in twins.find(ground.sources)
    }
    workers = pairs["multi_detokenizer_test", "multi_tokenizer_test"]
    assert workers.exact and not workers.thresholds
    assert {s.name for pair in workers.differences for s in pair if s} == {
        "--detokenizer-worker-num",
        "--tokenizer-worker-num",
    }
    backends = pairs["flashinfer_mtp_test", "flashmla_mtp_test"]
    assert backends.exact and len(backends.thresholds) == 1
    oss = pairs["gpt_oss_120b_bf16_test", "gpt_oss_120b_mxfp4_test"]
    assert not oss.exact and "scores" in oss.thresholds[0] and oss.further_lines


def test_the_optimum_without_a_loss_is_no_worse_than_what_its_author_lost_nothing_by(
    ground: Ground,
) -> None:
    choice = choose(ground.model, merges_of(ground), Wish())
    assert choice.proof.proven and not choice.given_up
    harmless = answer(ground, Change((FLASHMLA,), (Merge(MERGE),), NEW), (), TODAY)
    assert harmless.losses == []
    assert gpu_seconds(choice, ground) == harmless.pools["h100"].change.gpu_seconds == -311


def test_the_optimum_with_the_same_cells_given_up_is_no_worse_than_its_author(
    ground: Ground, author: Answer
) -> None:
    given_up = {cell.cell for cell in author.losses}
    choice = choose(ground.model, merges_of(ground), Wish(waived=given_up))
    assert choice.proof.proven
    after = answer(ground, Change(choice.change.drop, choice.change.merges, NEW), (), TODAY)
    assert {cell.cell for cell in after.losses} <= given_up
    for suite, saved in AUTHOR.items():
        assert seconds(after)[suite] <= saved


def test_the_prices_are_what_keeping_the_lost_cells_costs(ground: Ground, author: Answer) -> None:
    choice = choose(ground.model, merges_of(ground), Wish())
    prices = {price.claims: price.gpu_seconds for price in choice.prices}
    assert prices["attn.triton.accuracy.mmlu", "attn.triton.throughput"] == 177
    assert prices["mla.mtp.accept_length.flashinfer",] == 60
    assert prices["models.gpt_oss_120b.bf16_upcast",] == 880
    # All that the author saved beyond the optimum is what the author lost.
    saved = author.pools["h100"].change.gpu_seconds
    assert saved == gpu_seconds(choice, ground) - (177 + 60 + 880) == -1428


def test_the_command_says_so_and_fails(ground: Ground) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.plumb", "trim", *options(), "--format", "json"],
        cwd=WORKSPACE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    content = json.loads(done.stdout)
    assert len(content["refused"]) == 5
    assert "covers nothing on sm100" in done.stderr
    assert "tag it skipped_on:sm100" in done.stderr
