"""Stands in for the engine: what the replayed tests call, and no more."""

from __future__ import annotations

from collections.abc import Sequence


class Server:
    """A server that was started; it ends with its `with` block."""

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def launch_server(model: str, other_args: Sequence[str]) -> Server:
    """Starts `model` with these arguments. Raises RuntimeError: there is no engine here."""
    raise RuntimeError(f"no engine to serve {model} with {' '.join(other_args)}")
