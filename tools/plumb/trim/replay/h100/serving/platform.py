"""Stands in for what a test asks of the machine it runs on."""

from __future__ import annotations

import os


def is_in_ci() -> bool:
    """True on the machines of the pool."""
    return os.environ.get("CI") == "true"


def get_device_sm() -> int:
    """90 on sm90; 0 without a GPU."""
    return 0
