"""The entry of every Python test: a free GPU if the target asks for one, then pytest."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path

try:
    import pytest
    from pytest_bazel.main import main as bazel_main

    from testing.harness import gpu_slot, kernel_cache
except ModuleNotFoundError as missing:
    sys.exit(
        f"FAILED: {sys.executable} holds no package '{missing.name}'. With --config=image, which "
        "the GPU configs imply, packages come from that python: install requirements_lock.txt "
        "there, or add --config=directories to take the wheels of the lock."
    )

_FAILED = 1
# Where the CUDA toolkit's own installer puts it.
_CUDA = Path("/usr/local/cuda")
# What pytest only warns of, and what lets a test pass that shows nothing.
_STRICT = (
    "-Werror::pytest.PytestCollectionWarning",
    "-Werror::pytest.PytestReturnNotNoneWarning",
    "-Werror::pytest.PytestUnhandledThreadExceptionWarning",
    "-oempty_parameter_set_mark=fail_at_collect",
    "-oxfail_strict=true",
)


class Tally:
    """Counts what pytest collected, deselected and ran, beside what pytest says of itself."""

    def __init__(self) -> None:
        self.collected = 0
        self.deselected = 0
        self.selected = 0
        self.ended = 0
        self.ran = 0
        self.skipped = 0
        self.failed = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Counts before a filter or a shard takes any away."""
        self.collected = len(items)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Counts what the filter took away; a shard's share is not reported here."""
        self.deselected += len(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Counts what is left to run; from here on garbage is collected, as in any program."""
        self.selected = len(session.items)
        # Never what the imports made: that lives as long as the process.
        gc.freeze()
        gc.enable()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts the tests whose body ran, expected failures among them, and the others."""
        expected = hasattr(report, "wasxfail")
        self.ended += report.when == "teardown"
        self.failed += report.failed
        self.ran += report.when == "call" and (expected or not report.skipped)
        self.skipped += report.skipped and not expected

    def complaint(self) -> str | None:
        """Why a run that pytest calls green proves nothing, or None."""
        if not self.collected:
            return "no test was collected: wanted functions named test_* in the target's *_test.py"
        if self.collected == self.deselected:
            name = os.environ.get("TESTBRIDGE_TEST_ONLY", "")
            return f"--test_filter={name} matches none of the {self.collected} tests"
        if self.failed:
            return f"{self.failed} tests failed, though pytest ended as if none had"
        if self.ended < self.selected:
            return f"{self.selected - self.ended} of {self.selected} tests never ran"
        sharded = "TEST_TOTAL_SHARDS" in os.environ
        if not sharded and self.selected < self.collected - self.deselected:
            lost = self.collected - self.deselected - self.selected
            return f"{lost} of {self.collected} tests were dropped after they were collected"
        # A shard may hold no test at all, but not only skipped ones.
        if self.skipped and not self.ran:
            pool = os.environ.get("PLUMBLINE_POOL", "cpu")
            return (
                f"all {self.skipped} tests were skipped on pool {pool}: a "
                "green target has to run something; drop the pool, or mend the condition"
            )
        return None


def plugin_flags(environ: MutableMapping[str, str]) -> list[str]:
    """The plugins that a configuration adds, and what they need.

    PLUMBLINE_PLUGINS names modules, of the targets behind //testing/harness:plugins. With
    PLUMBLINE_LINES pytest-cov keeps those packages' lines, a context for each test function.
    """
    names = [name for name in environ.get("PLUMBLINE_PLUGINS", "").split(",") if name]
    flags = [word for name in names for word in ("-p", name)]
    packages = environ.get("PLUMBLINE_LINES", "").split(",")
    folder, scratch = environ.get("TEST_UNDECLARED_OUTPUTS_DIR"), environ.get("TEST_TMPDIR")
    if not packages[0] or not folder or not scratch:
        return flags
    environ.setdefault("COVERAGE_FILE", f"{folder}/lines.coverage")
    # By name: a sandbox's files are links, and lie elsewhere than the package's folder.
    settings = Path(scratch) / "coverage.ini"
    listed = "".join(f"    {package}\n" for package in packages)
    settings.write_text(f"[run]\nsource_pkgs =\n{listed}")
    flags += ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    return flags


def run_pytest(args: Sequence[str]) -> int:
    """Runs pytest; a run that executed no test fails, whatever pytest calls it."""
    tally = Tally()
    # The machine's own python may hold plugins that no target asked for.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # Room for the first finding in the summary's line of a failed test.
    os.environ.setdefault("COLUMNS", "180")
    flags = ["-p", "pytest_shard.pytest_shard", "-p", "testing.harness.backend_table"]
    flags += ["--strict-markers", "-ra", "--durations=3", "--tb=short", *_STRICT]
    flags += plugin_flags(os.environ)
    # Of 1.4 s of an import of torch, 0.3 s go into looking for garbage among what it keeps.
    gc.disable()
    code = int(pytest.main([*flags, *args], plugins=[tally]))
    if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        complaint = tally.complaint()
        if complaint:
            # Below what pytest said, which a log that holds both would show last.
            sys.stdout.flush()
            print(f"FAILED: {complaint}", file=sys.stderr)
        return _FAILED if complaint else 0
    return code


@contextlib.contextmanager
def devices() -> Iterator[None]:
    """Leaves CUDA only the GPUs that this target may use: none for a CPU target."""
    count = int(os.environ.get("PLUMBLINE_GPUS", "0"))
    if not count:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        yield
        return
    if "TEST_TMPDIR" in os.environ:
        # FlashInfer compiles by `ninja`, which pip puts beside the interpreter, and what it calls
        # by the CUDA toolkit's nvcc; Bazel's PATH has the system's folders only.
        os.environ["PATH"] += f"{os.pathsep}{Path(sys.executable).parent}"
        if _CUDA.is_dir():
            os.environ.setdefault("CUDA_HOME", str(_CUDA))
        try:
            cache = kernel_cache.folder(os.environ)
        except ValueError as error:
            sys.exit(f"FAILED: {error}")
        os.environ.setdefault("TRITON_CACHE_DIR", f"{cache}/triton")
        os.environ.setdefault("FLASHINFER_WORKSPACE_BASE", f"{cache}/flashinfer")
        # DeepGEMM's, which FlashInfer calls; it would take the home folder.
        os.environ.setdefault("TRTLLM_DG_CACHE_DIR", f"{cache}/deep_gemm")
    arch = os.environ["PLUMBLINE_ARCH"]
    machine = gpu_slot.machine_gpus()
    usable = gpu_slot.candidates(machine, arch, os.environ)
    try:
        per_gpu = gpu_slot.tests_per_gpu(os.environ)
    except ValueError as error:
        sys.exit(f"FAILED: {error}")
    try:
        with gpu_slot.take(usable, count, per_gpu=per_gpu) as taken:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.uuid for gpu in taken)
            print(f"GPU {', '.join(f'{gpu.index} ({gpu.name})' for gpu in taken)}", file=sys.stderr)
            yield
    except gpu_slot.NoGpu as error:
        seen = ", ".join(f"{gpu.name} ({gpu.arch})" for gpu in machine) or "no GPU"
        sys.exit(
            f"FAILED: pool {os.environ['PLUMBLINE_POOL']} needs {count} GPU(s) of {arch}: {error}; "
            f"seen here: {seen}. Run it on that pool, or leave it out: --config=cpu."
        )


@contextlib.contextmanager
def no_early_exit() -> Iterator[None]:
    """Lets Bazel fail a run that ends before its tests do, as `os._exit(0)` in a test would."""
    path = os.environ.get("TEST_PREMATURE_EXIT_FILE")
    if path:
        Path(path).touch()
    yield
    if path:
        Path(path).unlink(missing_ok=True)


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell's background job inherits it: what a test interrupts would run on.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with devices(), no_early_exit():
        status = bazel_main(sys.argv[1:], pytest_main=run_pytest)
    sys.stdout.flush()
    sys.stderr.flush()
    # Nothing that a test registered for the interpreter's end can change the status any more.
    os._exit(status)
