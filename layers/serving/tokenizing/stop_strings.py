"""Ends a text before the first stop string, also one that is split over tokens."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Lets text through that can be no part of a stop string.

    Of several in one text the one that begins first counts; of those that begin together any, for
    the text before is the same.

    Args:
        stops: none of them empty.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = list(stops)
        self._held = ""

    def add(self, text: str) -> tuple[str, bool]:
        """Text to be shown, and whether a stop string came: then nothing more is shown."""
        if not self._stops:
            return text, False
        self._held += text
        found = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        shown = min(found, default=len(self._held) - self._unsure())
        # A longer stop string may have begun before the one that is whole already.
        text, self._held = self._held[:shown], self._held[shown:]
        return text, bool(found)

    def finish(self) -> str:
        """Text that was held and that no stop string took."""
        text, self._held = self._held, ""
        return text

    def _unsure(self) -> int:
        """Characters at the end that may be the beginning of a stop string."""
        longest = max(len(stop) for stop in self._stops) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            end = self._held[-length:]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0
