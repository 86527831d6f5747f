"""Names that were probably meant, and names that a pattern takes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from fnmatch import translate


def nearest(seen: str, known: Iterable[str]) -> str:
    """A clause for the end of an error: the known names nearest to `seen`, or what is known."""
    names = sorted(set(known))
    close = difflib.get_close_matches(seen, names, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if len(names) <= 12:
        return f"known: {', '.join(names) or 'none'}"
    return f"known: {', '.join(names[:5])} and {len(names) - 5} more"


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a glob takes as a whole: `*` and `?` take dots and slashes too."""
    takes = re.compile(translate(pattern)).match
    return sorted(name for name in names if takes(name))
