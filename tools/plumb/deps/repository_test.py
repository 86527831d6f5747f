"""This checkout's own graph is true: what each target imports and reads is what it declares."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.plumb.cache import folder_for
from tools.plumb.deps import mutate, report
from tools.plumb.deps.check import check
from tools.plumb.deps.load import load
from tools.plumb.deps.own_bazel import own_bazel
from tools.plumb.deps.workspace import Workspace
from tools.plumb.revision import Loader
from tools.plumb.trees.git import Repository

ROOT = Path(__file__).resolve().parents[3]
MUTANTS = 60


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with (
        own_bazel(tmp_path_factory.mktemp("deps")) as (program, caches),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("XDG_CACHE_HOME", str(caches))
        patch.setenv("PLUMBLINE_BAZEL", str(program))
        yield load(Loader(Repository.find(ROOT), ROOT, folder_for(ROOT), print))


def test_every_target_declares_what_it_needs_and_nothing_else(repository: Workspace) -> None:
    found = check(repository)

    assert not found, "\n".join(report.lines(found, 0, "tools/bazel run //tools/plumb --"))


def test_a_dep_that_goes_missing_is_found(repository: Workspace) -> None:
    deps = list(mutate.removable(repository))
    assert len(deps) > 1000

    # Without the date of the run, so that a failure comes again.
    chosen = random.Random(4).sample(deps, MUTANTS)
    missed = [
        f"{call.label} without {label}"
        for call, label in chosen
        if not mutate.found(repository, call, label)
    ]

    assert missed == []
