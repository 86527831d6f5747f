"""Loaders that go wrong, for a server's --loader."""

from __future__ import annotations

import os
from typing import NoReturn


def dies(*_: object, **__: object) -> NoReturn:
    """Ends its process, as a crash in a library would."""
    os._exit(3)
