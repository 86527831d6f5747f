"""Words for people: numbers with what they count."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Such as '1 test' or '2 tests'. noun: its singular, whose plural ends in s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
