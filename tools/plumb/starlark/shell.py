"""What a shell script says beside its comments."""

from __future__ import annotations

import re

_SHELL = re.compile(r"#!\s*(?:/usr)?/bin/(?:env )?(?:ba|da|k|z)?sh\b")
_ESCAPED = re.compile(r"\\.")


def without_comments(script: str) -> str:
    """`script` without the lines that are comments as a whole.

    All of it if such a line may be part of a text: where one quotes across lines, or holds a here
    document.
    """
    first, *lines = script.splitlines() or [""]
    if not _SHELL.match(first):
        return script
    kept = [first]
    pending = ""
    for line in lines:
        if not pending and line.lstrip().startswith("#"):
            continue
        pending += line
        if line.endswith("\\"):
            pending = pending[:-1]
            continue
        if "<<" in pending or _is_open(pending):
            return script
        if pending.strip():
            kept.append(pending.rstrip())
        pending = ""
    return script if pending else "\n".join(kept)


def _is_open(line: str) -> bool:
    """True if a quote of the line may not end in it."""
    plain = _ESCAPED.sub("", line)
    return any(plain.count(quote) % 2 for quote in "\"'`") or plain.count("(") != plain.count(")")
