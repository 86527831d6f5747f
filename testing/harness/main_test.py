import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

MAIN = Path(__file__).parent / "main.py"
ROOT = MAIN.parents[2]


def run(
    test: str, folder: Path, *, errors: int = subprocess.PIPE, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs main.py as Bazel would, on a test file with text `test`."""
    file = folder / "inner_test.py"
    file.write_text(test)
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("TEST", "PLUMBLINE", "XML"))
    }
    return subprocess.run(
        [sys.executable, MAIN, file],
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        check=False,
        cwd=folder,
        env={
            **inherited,
            "BAZEL_TEST": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            **env,
        },
    )


PASSING = "def test_a():\n    pass\n\ndef test_b():\n    pass\n"


def test_a_green_test_passes_and_writes_junit_xml(tmp_path: Path) -> None:
    xml = tmp_path / "out.xml"

    done = run(PASSING, tmp_path, XML_OUTPUT_FILE=str(xml))

    assert done.returncode == 0, done.stderr
    assert 'tests="2"' in xml.read_text()


def test_a_red_test_fails(tmp_path: Path) -> None:
    done = run("def test_a():\n    assert 1 == 2\n", tmp_path)

    assert done.returncode != 0
    assert "1 failed" in done.stdout


@pytest.mark.parametrize("way_out", ["os._exit(0)", "sys.exit(0)"])
@pytest.mark.parametrize("where", ["{}\n", "def test_a():\n    {}\n"])
def test_a_test_that_leaves_early_fails(tmp_path: Path, way_out: str, where: str) -> None:
    left = tmp_path / "premature"

    done = run(
        f"import os\nimport sys\n\n{where.format(way_out)}",
        tmp_path,
        TEST_PREMATURE_EXIT_FILE=str(left),
    )

    # Bazel fails a test that leaves this file behind, whatever its exit status.
    assert done.returncode != 0 or left.exists()


@pytest.mark.parametrize(
    ("test", "complaint"),
    [
        (
            "import pytest\n\ndef test_a():\n    pass\n\n"
            "def test_b():\n    pytest.exit('enough', returncode=0)\n\ndef test_c():\n    pass\n",
            "of 3 tests never ran",
        ),
        ("def test_a():\n    return 1 == 2\n", "returned"),
        (
            "import threading\n\ndef test_a():\n"
            "    t = threading.Thread(target=lambda: 1 / 0)\n    t.start()\n    t.join()\n",
            "ZeroDivisionError",
        ),
        (
            "class TestA:\n    def __init__(self):\n        pass\n\n    def test_a(self):\n"
            "        pass\n\ndef test_b():\n    pass\n",
            "cannot collect test class",
        ),
        (
            "import pytest\n\n@pytest.mark.parametrize('x', [])\ndef test_a(x):\n    pass\n\n"
            "def test_b():\n    pass\n",
            "Empty parameter set",
        ),
        (
            "import pytest\n\n@pytest.mark.xfail\ndef test_a():\n    pass\n",
            "XPASS(strict)",
        ),
        (
            "import atexit\nimport os\n\natexit.register(os._exit, 0)\n\n"
            "def test_a():\n    assert 1 == 2\n",
            "1 failed",
        ),
    ],
    ids=["exit", "return", "thread", "class", "no-parameters", "xpass", "atexit"],
)
def test_what_pytest_lets_pass_fails(tmp_path: Path, test: str, complaint: str) -> None:
    done = run(test, tmp_path)

    assert done.returncode != 0
    assert complaint in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("conftest", "complaint"),
    [
        (
            "def pytest_collection_modifyitems(items):\n    del items[1:]\n",
            "1 of 2 tests were dropped",
        ),
        (
            "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n",
            "1 tests failed, though pytest ended as if none had",
        ),
    ],
    ids=["drops", "forgives"],
)
def test_a_conftest_cannot_hide_a_failure(tmp_path: Path, conftest: str, complaint: str) -> None:
    (tmp_path / "conftest.py").write_text(conftest)

    done = run("def test_a():\n    pass\n\ndef test_b():\n    assert 1 == 2\n", tmp_path)

    assert done.returncode != 0
    assert complaint in done.stderr


def test_a_test_that_ends_leaves_no_mark(tmp_path: Path) -> None:
    left = tmp_path / "premature"

    assert run(PASSING, tmp_path, TEST_PREMATURE_EXIT_FILE=str(left)).returncode == 0
    assert not left.exists()


def test_a_file_without_tests_fails(tmp_path: Path) -> None:
    done = run("def helper():\n    pass\n", tmp_path)

    assert done.returncode != 0
    assert "no test was collected" in done.stderr


def test_a_target_whose_every_test_is_skipped_fails(tmp_path: Path) -> None:
    skipped = "import pytest\n\n@pytest.mark.skip(reason='needs sm100')\ndef test_a():\n    pass\n"

    done = run(skipped, tmp_path)

    assert done.returncode != 0
    assert "all 1 tests were skipped on pool cpu" in done.stderr


def test_a_shard_whose_every_test_is_skipped_fails_too(tmp_path: Path) -> None:
    skipped = "import pytest\n\n@pytest.mark.skip(reason='needs sm100')\ndef test_a():\n    pass\n"

    codes = [
        run(skipped, tmp_path, TEST_SHARD_INDEX=str(index), TEST_TOTAL_SHARDS="2").returncode
        for index in range(2)
    ]

    assert sorted(code != 0 for code in codes) == [False, True]


def test_an_expected_failure_counts_as_run(tmp_path: Path) -> None:
    expected = "import pytest\n\n@pytest.mark.xfail\ndef test_a():\n    assert False\n"

    assert run(expected, tmp_path).returncode == 0


def test_the_filter_chooses_one_test(tmp_path: Path) -> None:
    done = run(PASSING, tmp_path, TESTBRIDGE_TEST_ONLY="test_b")

    assert done.returncode == 0, done.stderr
    assert "1 passed, 1 deselected" in done.stdout


def test_a_filter_that_matches_nothing_fails(tmp_path: Path) -> None:
    done = run(PASSING, tmp_path, TESTBRIDGE_TEST_ONLY="test_c")

    assert done.returncode != 0
    assert "--test_filter=test_c matches none of the 2 tests" in done.stderr


def test_a_complaint_stands_below_what_pytest_says(tmp_path: Path) -> None:
    log = run(PASSING, tmp_path, errors=subprocess.STDOUT, TESTBRIDGE_TEST_ONLY="test_c").stdout

    assert 0 < log.index("2 deselected in") < log.index("FAILED: --test_filter=test_c")


def test_shards_run_each_test_once_and_an_empty_shard_passes(tmp_path: Path) -> None:
    ran = 0
    for index in range(4):
        status = tmp_path / f"status{index}"
        done = run(
            PASSING,
            tmp_path,
            TEST_SHARD_INDEX=str(index),
            TEST_TOTAL_SHARDS="4",
            TEST_SHARD_STATUS_FILE=str(status),
        )
        assert done.returncode == 0, done.stderr
        assert status.exists()
        passed = re.search(r"(\d+) passed", done.stdout)
        ran += int(passed[1]) if passed else 0
    assert ran == 2


def test_the_temporary_folder_is_bazels(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    done = run(
        f"def test_a(tmp_path):\n    assert str(tmp_path).startswith({str(own)!r})\n",
        tmp_path,
        TEST_TMPDIR=str(own),
    )

    assert done.returncode == 0, done.stdout


def test_a_cpu_target_sees_no_gpu(tmp_path: Path) -> None:
    hidden = "import os\n\ndef test_a():\n    assert os.environ['CUDA_VISIBLE_DEVICES'] == ''\n"

    assert run(hidden, tmp_path, CUDA_VISIBLE_DEVICES="0").returncode == 0


def test_a_gpu_target_finds_what_compiles_kernels_and_where_to_keep_them(tmp_path: Path) -> None:
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\necho '0, GPU-a, 9.0, NVIDIA H100'\n")
    driver.chmod(0o755)
    look = (
        "import os, sys\n\ndef test_a():\n"
        "    assert os.environ['CUDA_VISIBLE_DEVICES'] == 'GPU-a'\n"
        "    assert os.environ['PATH'].split(':')[-1] == os.path.dirname(sys.executable)\n"
        "    for tool in ('TRITON_CACHE', 'TRTLLM_DG_CACHE'):\n"
        f"        assert os.environ[tool + '_DIR'].startswith({str(tmp_path)!r} + '/kernels/')\n"
    )

    done = run(
        look,
        tmp_path,
        CUDA_VISIBLE_DEVICES="0",
        PATH=f"{tmp_path}:/usr/bin:/bin",
        PLUMBLINE_ARCH="sm90",
        PLUMBLINE_GPUS="1",
        PLUMBLINE_GPU_SLOTS=str(tmp_path / "slots"),
        PLUMBLINE_KERNEL_CACHE=str(tmp_path / "kernels"),
        PLUMBLINE_POOL="h100",
        TEST_TMPDIR=str(tmp_path),
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("arch", ["sm90", "sm100"])
def test_a_gpu_target_on_a_machine_without_that_gpu_fails_and_names_it(
    tmp_path: Path, arch: str
) -> None:
    done = run(
        PASSING,
        tmp_path,
        CUDA_VISIBLE_DEVICES="",
        PLUMBLINE_ARCH=arch,
        PLUMBLINE_GPUS="1",
        PLUMBLINE_POOL="h100",
    )

    assert done.returncode != 0
    assert f"pool h100 needs 1 GPU(s) of {arch}: wanted 1, this machine offers 0" in done.stderr
