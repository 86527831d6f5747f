"""Loaders that go wrong, for a server's --loader."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from layers.kernels.capability import BackendUnavailable


def dies(*_: object, **__: object) -> NoReturn:
    """Ends its process, as a crash in a library would."""
    os._exit(3)


def cannot_run_here(
    folder: Path, *, device: object, params_dtype: object, backend: object, with_draft: bool
) -> None:
    """As for kernels of another device."""
    raise BackendUnavailable(f"no {backend} on {device}")
