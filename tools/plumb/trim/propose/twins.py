"""Twins: test files of one shape, which differ in flags and other literals alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from tools.plumb.cells.model import Test
from tools.plumb.trim.propose.candidate import Candidate, Kind, cost
from tools.plumb.trim.source.read import Sources
from tools.plumb.trim.source.settings import THRESHOLD, Setting
from tools.plumb.trim.source.shape import Shape, differing_lines, likeness

# Of the lines without literals: a file with one case more than its twin is still worth showing.
NEAR = 0.8
# A line that more files share says nothing of any two; with fewer it would, in a small suite.
_COMMON = 40
# Smaller files are of one shape by chance.
_SMALLEST = 4


@dataclass(frozen=True)
class Twins:
    """Two files. alike: share of lines without literals that both have; 1 if of one shape.

    differences: (what the first sets, what the other sets), None where one does not.
    """

    one: Shape
    other: Shape
    alike: float
    differences: tuple[tuple[Setting | None, Setting | None], ...]

    @property
    def exact(self) -> bool:
        """True if they differ in literals alone."""
        return self.one.bare == self.other.bare

    @property
    def thresholds(self) -> list[str]:
        """The thresholds that both have and that differ, such as `score: 0.58 against 0.5`."""
        return [
            f"{a.name}: {a.value} against {b.value}"
            for a, b in self.differences
            if a is not None and b is not None and a.kind == THRESHOLD
        ]

    @property
    def further_lines(self) -> list[str]:
        """The lines of other shape, such as a case that only one has: `- …`, `+ …`."""
        rows = []
        matcher = SequenceMatcher(None, self.one.bare, self.other.bare, autojunk=False)
        for kind, a, b, c, d in matcher.get_opcodes():
            if kind != "equal":
                rows += [f"- {line.strip()}" for line in self.one.lines[a:b]]
                rows += [f"+ {line.strip()}" for line in self.other.lines[c:d]]
        return rows

    def doubts(self) -> list[str]:
        """What keeps one from standing for the other: thresholds and lines of other shape."""
        found = [f"they hold runs to different figures: {text}" for text in self.thresholds]
        lines = self.further_lines
        if lines:
            found.append(f"not of one shape: {' / '.join(lines[:6])}")
        return found


def compare(one: Shape, other: Shape) -> Twins:
    """Two shapes and what each sets that the other does not."""
    alike = 1.0 if one.bare == other.bare else likeness(one, other)
    return Twins(one, other, alike, tuple(_differences(one.settings, other.settings)))


def find(sources: Sources) -> list[Twins]:
    """Test files that are alike, most alike first.

    Of files of one shape each is paired with the cheapest, and of these the cheapest alone with
    files of another shape.
    """
    found = [s for path in sources.tests if (s := sources.shape(path)) and s.names >= _SMALLEST]
    groups: dict[tuple[str, ...], list[Shape]] = defaultdict(list)
    for shape in sorted(found, key=lambda s: (_cost(sources.tests[s.path]), s.path)):
        groups[shape.bare].append(shape)
    pairs = [(first, other) for first, *others in groups.values() for other in others]
    heads = [members[0] for members in groups.values()]
    pairs += [(heads[a], heads[b]) for a, b in _promising(heads)]
    alike = [compare(a, b) for a, b in pairs if _shares_a_place(sources, a.path, b.path)]
    near = [twins for twins in alike if twins.alike >= NEAR]
    return sorted(near, key=lambda t: (-t.alike, len(t.differences), t.one.path, t.other.path))


def candidates(sources: Sources) -> list[Candidate]:
    """A candidate for each pair: the dearer file goes."""
    return [_candidate(sources, twins) for twins in find(sources)]


def _candidate(sources: Sources, twins: Twins) -> Candidate:
    pair = [(shape.path, sources.tests[shape.path]) for shape in (twins.one, twins.other)]
    goes, stays = sorted(pair, key=lambda p: ([-c for c in _cost(p[1])], p[0]))
    how = "are of one shape" if twins.exact else f"are alike in {100 * twins.alike:.0f} % of lines"
    settings = [_difference(a, b) for a, b in twins.differences]
    seconds, gpu_seconds = _cost(goes[1])[1], _cost(goes[1])[0]
    return Candidate(
        Kind.TWINS,
        f"{goes[0]} and {stays[0]} {how}",
        tuple(test.label for test in (*goes[1], *stays[1])),
        seconds,
        gpu_seconds,
        tuple(["they differ in", *settings] if settings else [])
        + tuple(differing_lines(twins.one, twins.other)),
        tuple(twins.doubts()),
    )


def _cost(tests: tuple[Test, ...]) -> tuple[int, int]:
    costs = [cost(test) for test in tests if test.runs]
    return sum(c[0] for c in costs), sum(c[1] for c in costs)


def _promising(shapes: list[Shape]) -> Iterator[tuple[int, int]]:
    """Pairs that share enough lines to be alike, counted without regard to order."""
    holders: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number, shape in enumerate(shapes):
        seen: Counter[str] = Counter()
        for line in shape.bare:
            seen[line] += 1
            holders[(line, seen[line])].append(number)
    shared: Counter[tuple[int, int]] = Counter()
    rare = [members for members in holders.values() if 1 < len(members) <= _COMMON]
    for members in rare:
        for place, a in enumerate(members):
            for b in members[place + 1 :]:
                shared[(a, b)] += 1
    common = Counter(n for members in holders.values() if len(members) > _COMMON for n in members)
    for (a, b), count in sorted(shared.items()):
        most = count + min(common[a], common[b])
        if 2 * most >= NEAR * (shapes[a].names + shapes[b].names):
            yield a, b


def _shares_a_place(sources: Sources, one: str, other: str) -> bool:
    """True if tests of both run on one architecture: others are no substitute for each other."""
    places = [{test.arch for test in sources.tests[path]} for path in (one, other)]
    return bool(places[0] & places[1])


def _differences(
    one: tuple[Setting, ...], other: tuple[Setting, ...]
) -> Iterator[tuple[Setting | None, Setting | None]]:
    """Settings that differ, those of one kind and name beside each other."""
    left, right = _by_name(one), _by_name(other)
    for key in dict.fromkeys([*left, *right]):
        mine, theirs = left.get(key, []), right.get(key, [])
        values = [setting.value for setting in theirs]
        mine = [s for s in mine if not _take(values, s.value)]
        own = [setting.value for setting in left.get(key, [])]
        theirs = [s for s in theirs if not _take(own, s.value)]
        for place in range(max(len(mine), len(theirs))):
            yield (
                mine[place] if place < len(mine) else None,
                theirs[place] if place < len(theirs) else None,
            )


def _take(values: list[str], value: str) -> bool:
    if value in values:
        values.remove(value)
        return True
    return False


def _by_name(settings: tuple[Setting, ...]) -> dict[tuple[str, str], list[Setting]]:
    found: dict[tuple[str, str], list[Setting]] = defaultdict(list)
    for setting in settings:
        found[(setting.kind, setting.name)].append(setting)
    return found


def _difference(one: Setting | None, other: Setting | None) -> str:
    setting = one or other
    assert setting is not None
    return f"  {setting.kind} {setting.name}: {_value(one)} against {_value(other)}"


def _value(setting: Setting | None) -> str:
    return "(not set)" if setting is None else setting.value or "(set)"
