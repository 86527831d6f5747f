"""What identifies a wheel: its entry in the lock, with those of everything that it needs.

Who needs whom is read from the `# via` comments that pip-compile and uv write. No wheel is
downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tools.pip.lock import normalise

_NAME = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True)
class Lock:
    """entries: wheel to its lines; needs: wheel to those it asks for; common: other options.

    orphans: wheels for which the lock does not say who needs them, so anyone may.
    """

    entries: Mapping[str, str]
    needs: Mapping[str, frozenset[str]]
    common: str
    orphans: frozenset[str]

    def parts(self, wheel: str | None) -> dict[str, str]:
        """The lock's entries for `wheel` and its needs, by name, with the options for all.

        The whole lock if `wheel` is None or not in the lock.
        """
        known = wheel is not None and wheel in self.entries
        names = self.closure(wheel) if wheel is not None and known else set(self.entries)
        parts = {f"wheel {name}": self.entries[name] for name in names}
        return parts | {"options of the lock": self.common}

    def closure(self, wheel: str) -> set[str]:
        """`wheel` and the wheels that it can need, directly or not."""
        found: set[str] = set()
        todo = [wheel, *self.orphans]
        while todo:
            name = todo.pop()
            if name in self.entries and name not in found:
                found.add(name)
                todo.extend(self.needs.get(name, ()))
        return found


def parse(text: str) -> Lock:
    """The lock in `text`, a requirements file with one pinned wheel an entry."""
    entries: dict[str, list[str]] = {}
    needs: dict[str, set[str]] = {}
    explained: set[str] = set()
    common: list[str] = []
    current, in_via = "", False
    for logical in _logical_lines(text):
        if logical.startswith("#"):
            words = logical.lstrip("#").strip()
            in_via = current != "" and (in_via or words == "via" or words.startswith("via "))
            if not in_via:
                continue
            explained.add(current)
            requirer = _NAME.match(words.removeprefix("via").strip())
            if requirer:
                needs.setdefault(normalise(requirer.group(1)), set()).add(current)
            continue
        in_via = False
        named = _NAME.match(logical)
        current = normalise(named.group(1)) if named else ""
        (entries.setdefault(current, []) if named else common).append(logical)
    return Lock(
        {name: "\n".join(sorted(lines)) for name, lines in entries.items()},
        {name: frozenset(wanted) for name, wanted in needs.items()},
        "\n".join(common),
        frozenset(entries.keys() - explained),
    )


def _logical_lines(text: str) -> list[str]:
    """Lines with continuations joined and hashes sorted; comments stay lines of their own."""
    lines: list[str] = []
    pending = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("#") or not line:
            if pending:
                lines.append(_sorted_hashes(pending))
                pending = ""
            if line:
                lines.append(line)
            continue
        line, _, comment = line.partition(" #")
        pending = f"{pending} {line.removesuffix(chr(92)).strip()}".strip()
        if not line.endswith("\\"):
            lines.append(_sorted_hashes(pending))
            pending = ""
        if comment.strip():
            lines.append(f"#{comment}")
    if pending:
        lines.append(_sorted_hashes(pending))
    return lines


def _sorted_hashes(line: str) -> str:
    words = line.split()
    hashes = sorted(word for word in words if word.startswith("--hash="))
    return " ".join([word for word in words if not word.startswith("--hash=")] + hashes)
