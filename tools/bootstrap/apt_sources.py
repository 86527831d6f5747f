"""Reads the machine's apt sources and names the mirrors that carry Debian's own archive."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.bootstrap.errors import NoMirrorError

# A suite of another name in a source with component `main` is some vendor's archive.
_DEBIAN_SUITES = frozenset({"oldoldstable", "oldstable", "stable", "testing", "unstable", "sid"})
_DEBIAN_POCKETS = frozenset({"", "updates", "proposed-updates", "backports"})
_FETCHABLE_SCHEMES = ("http", "https", "ftp", "file", "copy", "mirror")


@dataclass(frozen=True)
class Source:
    """One entry of the apt sources: every URI of it carries every suite of it."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""
    origin: str = field(default="", compare=False)


def parse_one_line(text: str, origin: str = "") -> list[Source]:
    """Parses the `deb [options] uri suite component…` format; `deb-src` lines are skipped."""
    sources = []
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        match = re.fullmatch(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<rest>.+)", line)
        if not match:
            continue
        # A cdrom URI holds blanks inside its brackets: cdrom:[Debian 12 disc 1]/
        words = re.findall(r"(?:\[[^\]]*\]|\S)+", match["rest"])
        if len(words) < 2:
            continue
        options = dict(re.findall(r"(\S+?)[+-]?=(\S+)", match["options"] or ""))
        sources.append(
            Source((words[0],), (words[1],), tuple(words[2:]), options.get("signed-by", ""), origin)
        )
    return sources


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    """Yields each deb822 stanza as field name (lower case) to value, continuation lines joined."""
    fields: dict[str, str] = {}
    name = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield fields
            fields, name = {}, ""
        elif line[0] in " \t" and name:
            fields[name] += "\n" + line.strip()
        elif ":" in line:
            key, _, value = line.partition(":")
            name = key.strip().lower()
            fields[name] = value.strip()


def parse_deb822(text: str, origin: str = "") -> list[Source]:
    """Parses the `Types: / URIs: / Suites:` format; skips disabled and source-only stanzas."""
    sources = []
    for stanza in _stanzas(text):
        enabled = stanza.get("enabled", "yes").lower() not in ("no", "false", "off", "0")
        uris, suites = stanza.get("uris", "").split(), stanza.get("suites", "").split()
        if enabled and "deb" in stanza.get("types", "").split() and uris and suites:
            components = tuple(stanza.get("components", "").split())
            signed_by = stanza.get("signed-by", "")
            sources.append(Source(tuple(uris), tuple(suites), components, signed_by, origin))
    return sources


def read_sources(etc_apt: Path = Path("/etc/apt")) -> list[Source]:
    """All enabled binary sources under `etc_apt`, in the order in which apt reads the files."""
    sources: list[Source] = []
    parts = sorted((etc_apt / "sources.list.d").glob("*"))
    for path in [etc_apt / "sources.list", *parts]:
        parser = {".list": parse_one_line, ".sources": parse_deb822}.get(path.suffix)
        if parser and path.is_file():
            sources += parser(path.read_text(encoding="utf-8", errors="replace"), str(path))
    return sources


def _is_debian_archive(source: Source, suite: str, codename: str) -> bool:
    base, _, pocket = suite.partition("-")
    return (
        "main" in source.components
        and (base == codename or base in _DEBIAN_SUITES)
        and pocket in _DEBIAN_POCKETS
        and (not source.signed_by or "debian-archive" in source.signed_by)
    )


def archive_mirrors(sources: Iterable[Source], codename: str) -> list[str]:
    """URIs that carry Debian's archive, best guess first.

    Security archives and other vendors' archives are left out: they do not carry whole suites.

    Args:
        sources: what `read_sources` returned.
        codename: the machine's own release, such as `bookworm`.

    Raises:
        NoMirrorError: no source qualifies.
    """
    mirrors: list[str] = []
    for source in sources:
        if any(_is_debian_archive(source, suite, codename) for suite in source.suites):
            mirrors += [uri for uri in source.uris if uri not in mirrors]
    usable = [uri for uri in mirrors if re.split(r"[+:]", uri)[0] in _FETCHABLE_SCHEMES]
    if not usable:
        seen = ", ".join(mirrors) or "none"
        raise NoMirrorError(
            f"The apt sources of this machine name no Debian mirror (component main of {codename}; "
            f"seen: {seen}). Add one to /etc/apt/sources.list.d, check it with 'apt-get update', "
            "then try again."
        )
    return usable
