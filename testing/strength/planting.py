"""A pytest plugin that runs a layer test again with each planted fault, to see whether it fails.

Where PLUMBLINE_FAULTS names formats, such as `int8_channel`: after the tests have passed, each
fault of these formats is put into every layer of its format that `testing.harness.linear.build`
makes, and the tests run until one of them fails. A fault that fits no layer of the target, for its
shape, is left out. What was killed goes into kills.jsonl.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from testing.harness.records import record

VARIABLE = "PLUMBLINE_FAULTS"
KILLS = "kills.jsonl"


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """The tests as they are, then with each fault."""
    done = yield
    formats = [name for name in os.environ.get(VARIABLE, "").split(",") if name]
    # A test of strength plants its own, and has put down what it killed.
    own = Path(os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", "."), KILLS).exists()
    if session.testsfailed or own or not formats:
        return done
    # What a faulty layer runs is no evidence of what the test runs.
    coverage: Any = sys.modules.get("coverage")
    current = coverage.Coverage.current() if coverage else None
    if current is not None:
        # pytest-cov's plugin that names contexts needs a recording.
        session.config.pluginmanager.unregister(name="_cov_contexts")
        current.stop()
    # Not sooner, since the layers have to be loaded while their lines are recorded.
    from testing.strength.planted import known_formats, plantings_of

    for fmt in formats:
        plantings = plantings_of(fmt)
        if not plantings:
            wanted = ", ".join(known_formats())
            raise pytest.UsageError(f"{VARIABLE}={fmt}: wanted some of {wanted}")
        for planting in plantings:
            killed = _fails(session, planting)
            if planting.placed:
                record({"fault": str(planting), "killed": killed}, KILLS)
            if not planting.met:
                # The target builds no layer of this format, so that no other fault can be tried.
                break
    return done


def _fails(session: pytest.Session, planting: Any) -> bool:
    """Whether one of the tests fails with the fault; those after it are not run."""
    for item in session.items:
        before = planting.placed
        with planting.planted():
            reports = runtestprotocol(item, log=False, nextitem=None)
        if planting.placed > before and any(report.failed for report in reports):
            return True
    return False
