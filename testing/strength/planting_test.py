"""The plugin beside layers whose tests are known to be strong, weak or of another format."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import pytest_cov.plugin

from testing.strength import planting, planting_cases

ROOT = Path(__file__).parents[2]
MAIN = ROOT / "testing/harness/main.py"
PLUGINS = f"{pytest_cov.plugin.__name__},{planting.__name__}"


def kills(folder: Path, test: Callable[[], None], formats: str = "int8_channel") -> dict[str, bool]:
    file = folder / "inner_test.py"
    file.write_text(f"from {test.__module__} import {test.__name__} as test_it\n")
    done = subprocess.run(
        [sys.executable, MAIN, file],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith(("TEST", "XML"))},
            "BAZEL_TEST": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            "PLUMBLINE_PLUGINS": PLUGINS,
            "PLUMBLINE_LINES": "layers",
            "PLUMBLINE_FAULTS": formats,
            "TEST_UNDECLARED_OUTPUTS_DIR": str(folder),
            "TEST_TMPDIR": str(folder),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    file = folder / "kills.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return {row["fault"]: row["killed"] for row in rows}


def test_a_strong_test_kills_what_the_strength_tests_say_it_does(tmp_path: Path) -> None:
    found = kills(tmp_path, planting_cases.strong)
    assert len(found) > 25
    assert not [fault for fault, killed in found.items() if not killed and "bias" not in fault]


def test_a_weak_test_kills_nothing_and_gets_no_fault_of_another_format(tmp_path: Path) -> None:
    found = kills(tmp_path, planting_cases.weak, "nvfp4_w4a4,int8_channel")
    assert len(found) > 25 and not any(found.values())
    assert all(fault.startswith("int8_channel-") for fault in found)


def test_a_fault_that_fits_no_layer_is_left_out(tmp_path: Path) -> None:
    found = kills(tmp_path, planting_cases.small)
    assert "int8_channel-scale off by 1%" in found
    assert "int8_channel-one code off by its last bit" not in found


def test_a_test_that_plants_its_own_faults_gets_no_others(tmp_path: Path) -> None:
    found = kills(tmp_path, planting_cases.own)
    assert found == {"mine": True}


def test_an_unknown_format_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="PLUMBLINE_FAULTS=int9: wanted some of fp8_block"):
        kills(tmp_path, planting_cases.weak, "int9")
