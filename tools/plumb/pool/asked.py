"""What a Bazel command line asks for, as far as a pool has to know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools.plumb.errors import PlumbError
from tools.plumb.options import rc
from tools.plumb.pool.flags import Flags

_FILTERS = "test_tag_filters"
# What runs tests; another command has none to send anywhere.
_COMMANDS = ("test", "coverage", "build", "run")


@dataclass(frozen=True)
class Asked:
    """What a Bazel command line asks for.

    options: those after the command's name, with their values behind '='. targets: as the user
    wrote them, `-` for those to leave out. words: all that the user wrote after the command's name.
    """

    startup: tuple[str, ...] = ()
    command: str = ""
    options: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def configs(self) -> list[str]:
        """Names given to --config."""
        return [word.partition("=")[2] for word in self.options if word.startswith("--config=")]


def parse(words: Sequence[str], flags: Callable[[], Flags]) -> Asked:
    """A Bazel command line in its parts. Raises PlumbError if it names no command.

    flags: asked only where the words alone do not tell what an option's value is.
    """
    before = words[: words.index("--")] if "--" in words else words
    unclear = any(word.startswith("-") and "=" not in word for word in before)
    rest = list((flags() if unclear else Flags()).grouped(words))
    startup: list[str] = []
    while rest and rest[0][0].startswith("-"):
        startup += rest.pop(0)
    if not rest or rest[0][0] not in _COMMANDS:
        seen = f"'{rest[0][0]}'" if rest else "nothing"
        raise PlumbError(
            f"what Bazel should do is {seen}, wanted one of {', '.join(_COMMANDS)}: "
            "plumb pool run -- test --config=remote //testing/..."
        )
    (command,) = rest.pop(0)
    own = tuple(word for group in rest for word in group)
    options: list[str] = []
    targets: list[str] = []
    while rest:
        group = rest.pop(0)
        if group == ("--",):
            targets += (word for one in rest for word in one)
            break
        (options if group[0].startswith("-") else targets).append("=".join(group))
    return Asked(tuple(startup), command, tuple(options), tuple(targets), own)


def filters_of(lines: Sequence[rc.Line], asked: Asked) -> str:
    """The last --test_tag_filters of the lines of a .bazelrc and then a command line; or ""."""
    said = rc.effective([*lines, rc.Line("test", "", asked.options)])
    return said.get(_FILTERS, ("",))[-1]
