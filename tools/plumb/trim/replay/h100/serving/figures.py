"""Stands in for the evaluations: what the replayed tests measure, and no more."""

from __future__ import annotations

from serving.launch import Server


def evaluate(server: Server, task: str, examples: int) -> float:
    """Score of the served model in a task, 0 to 1."""
    raise RuntimeError(f"no engine to ask {examples} questions of {task}")


def accept_length(server: Server, prompts: int) -> float:
    """Mean number of tokens that a step of speculative decoding accepts."""
    raise RuntimeError(f"no engine to give {prompts} prompts")


def time_to_first_token(server: Server, clients: int) -> float:
    """Seconds until the first token, the median of several clients at once."""
    raise RuntimeError(f"no engine for {clients} clients")


def offline_throughput(model: str, other_args: list[str]) -> float:
    """Tokens a second of a batch without server."""
    raise RuntimeError(f"no engine to run {model}")
