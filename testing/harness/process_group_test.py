"""Processes answer by rank, failures show their traceback, and nothing is left running."""

import atexit
import os
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from testing.harness import process_group
from testing.harness.process_group import ProcessFailed, run_in_processes


def add_ranks(rank: int, offset: int) -> tuple[int, float]:
    total = torch.tensor([float(rank + offset)])
    dist.all_reduce(total)
    return rank, float(total)


def fail_on_rank_one(rank: int) -> None:
    if rank == 1:
        raise ValueError("this is the reason")
    dist.barrier()


def die_on_rank_one(rank: int, pids: str) -> None:
    (Path(pids) / str(rank)).write_text(str(os.getpid()))
    dist.barrier()
    if rank == 1:
        os._exit(7)
    dist.barrier()


def sleep_on_rank_zero(rank: int, pids: str) -> None:
    (Path(pids) / str(rank)).write_text(str(os.getpid()))
    if rank == 0:
        time.sleep(600)


def crash_at_exit_on_rank_one(rank: int) -> int:
    # Rank 0 may still be at the start of the group when rank 1 ends.
    dist.barrier()
    if rank == 1:
        atexit.register(os._exit, 3)
    return rank


def hang_at_exit(rank: int, pids: str) -> int:
    (Path(pids) / str(rank)).write_text(str(os.getpid()))
    threading.Thread(target=time.sleep, args=(600,)).start()
    return rank


def assert_all_ended(pids: Path) -> None:
    for file in pids.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)


def test_results_come_by_rank() -> None:
    assert run_in_processes(add_ranks, 2, 10) == [(0, 21.0), (1, 21.0)]


def test_traceback_of_the_failing_rank_is_shown() -> None:
    with pytest.raises(ProcessFailed, match=r"\Arank 1 of 2 raised:(.|\n)*this is the reason"):
        run_in_processes(fail_on_rank_one, 2)


def test_death_is_reported_and_others_are_ended(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match=r"rank 1 of 2 died with exit code 7"):
        run_in_processes(die_on_rank_one, 2, str(tmp_path))
    assert_all_ended(tmp_path)


def test_time_limit_names_who_did_not_answer_and_ends_it(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match=r"ranks 0(, 1)? of 2 gave no answer within 6 s"):
        run_in_processes(sleep_on_rank_zero, 2, str(tmp_path), seconds=6)
    assert_all_ended(tmp_path)


def test_a_crash_after_the_answer_is_reported() -> None:
    with pytest.raises(ProcessFailed, match=r"\Arank 1 answered, then ended with exit code 3\Z"):
        run_in_processes(crash_at_exit_on_rank_one, 2)


def test_a_process_that_does_not_end_is_reported_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_group, "END_SECONDS", 2.0)
    with pytest.raises(ProcessFailed, match=r"rank 0 answered, but did not end within 2 s"):
        run_in_processes(hang_at_exit, 1, str(tmp_path))
    assert_all_ended(tmp_path)
