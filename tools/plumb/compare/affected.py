"""Compares two revisions: which tests the change between them can affect, and what it says."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tools.plumb import graph, pools
from tools.plumb.compare import access, unowned
from tools.plumb.compare.access import Access
from tools.plumb.compare.digest import OUTSIDE
from tools.plumb.compare.tracers import Tracers
from tools.plumb.compare.why import Chain, Tracer, telling
from tools.plumb.graph import canonical
from tools.plumb.incremental import layered
from tools.plumb.revision import Revision, loaded_outside
from tools.plumb.steering import inputs
from tools.plumb.trees.files import changed_paths

# How an affected test came to be one.
INPUT, NEW, EVERYTHING, ALWAYS, POLICY = "input", "new", "everything", "always", "policy"
# Bazel never answers such a test from its cache.
_ALWAYS_TAG = "external"
_OPTION = "option "
# Rules that reach what does not name them.
_IMPLIED = ("toolchain", "platform")
_LINK, _BIT = "->", "its executable bit, which Bazel itself does not notice"


@dataclass(frozen=True)
class Affected:
    """An affected test. cause: one of the five kinds; because: what changed, in words."""

    label: str
    placement: pools.Placement
    cause: str
    because: str


@dataclass(frozen=True)
class Comparison:
    """What a change affects.

    everything: reasons why every test is affected; empty if the graph decided.
    total: number of tests in the head; whole: where each of them runs.
    removed: tests that only the base ran, since they are gone or now tagged manual.
    changed: paths of the files that differ. access: what other targets may now use or no longer.
    undecided: conditions of select()s of which every branch counted.
    unchanged: tests left out since what they read was built, and is the same.
    """

    tests: list[Affected]
    total: int
    everything: list[str]
    unowned: list[unowned.Decision]
    removed: list[str] = field(default_factory=list)
    tracer: Tracers | None = None
    access: Access = field(default_factory=Access)
    changed: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    whole: list[pools.Placement] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)


def compare(
    base: Revision | None,
    head: Revision,
    no_base: str,
    *,
    manual: bool,
    only: Collection[str] = (),
    configs: Sequence[str] | None = None,
) -> Comparison:
    """The tests of `head` that differ from `base`.

    no_base: why there is no base, when it is None: then every test is affected.
    manual: counts tests tagged manual too, which `bazel test //...` leaves out.
    only: pools whose tests count; all of them if empty. configs: see Tracers.
    """
    tests = _tests(head, manual, only)
    whole = [head.placement_of(test) for test in tests]
    if base is None:
        found = _all(tests, head, no_base)
        return Comparison(found, len(tests), [no_base], [], whole=whole)
    tracer = Tracers(base, head, configs)
    changed = changed_paths(base.files, head.files)
    decisions = unowned.decide(changed, base, head, unowned.policy_of(head.files))
    everything = _steering_changes(base, head, tracer) + [
        f"{d.path} changed: {d.reason}" for d in decisions if d.affects == unowned.EVERYTHING
    ]
    before = _tests(base, manual, only)
    removed = sorted({*before} - {*tests})
    if everything:
        found = _all(tests, head, everything[0])
    else:
        named = [d for d in decisions if not isinstance(d.affects, str)]
        found = [*_found(tests, whole, tracer, _Words(changed), named)]
    users = access.compare(base.graph, head.graph)
    undecided = tracer.undecided()
    return Comparison(
        found, len(tests), everything, decisions, removed, tracer, users, changed, undecided, whole
    )


def _tests(revision: Revision, manual: bool, only: Collection[str]) -> list[str]:
    tests = revision.graph.test_labels if manual else revision.graph.labels_of_all
    return [test for test in tests if not only or revision.placement_of(test).pool in only]


class _Words:
    """What to say of the targets where chains start, of which many tests share a few."""

    def __init__(self, changed: list[str]) -> None:
        self._changed = changed
        self._known: dict[tuple[int, str], str] = {}

    def of(self, tracer: Tracer, label: str) -> str:
        """Why `label` is affected."""
        start = tracer.start(label)
        key = id(tracer), start
        if key not in self._known:
            self._known[key] = describe(tracer.chain(start), self._changed)
        return self._known[key]


def _found(
    tests: Sequence[str],
    places: Sequence[pools.Placement],
    tracers: Tracers,
    words: _Words,
    named: list[unowned.Decision],
) -> Iterator[Affected]:
    """The affected ones of `tests`. Most of a hundred thousand are not, and cost next to nothing.

    named: decisions that name tests.
    """
    by_pool = {pool: tracers.of_pool(pool) for pool in {place.pool for place in places}}
    changed = {pool: tracer.all_changed() for pool, tracer in by_pool.items()}
    said = tracers.head.index.said_of(tests)
    always = graph.tagged(said, _ALWAYS_TAG)
    for test, place, it in zip(tests, places, said, strict=True):
        if test in changed[place.pool]:
            yield _changed(test, place, by_pool[place.pool], words)
        elif id(it) in always:
            because = "tagged external: Bazel never reuses its result"
            yield Affected(test, place, ALWAYS, because)
        elif named and (answer := _named(test, place, named)):
            yield answer


def _changed(test: str, place: pools.Placement, tracer: Tracer, words: _Words) -> Affected:
    if not tracer.base.knows(test):
        return Affected(test, place, NEW, "new test")
    return Affected(test, place, INPUT, words.of(tracer, test))


def _named(test: str, place: pools.Placement, decisions: list[unowned.Decision]) -> Affected | None:
    for decision in decisions:
        if decision.reaches(test):
            because = f"{decision.path}, by the policy: {decision.reason}"
            return Affected(test, place, POLICY, because)
    return None


def nearest(label: str, known: Iterable[str]) -> list[str]:
    """Labels of `known` whose spelling is close to `label`, best first."""
    return difflib.get_close_matches(label, list(known), n=3, cutoff=0.5)


def describe(chain: Chain, changed: Iterable[str]) -> str:
    """The start of a chain in a few words, such as 'layers/linear.py' or '//x:y: deps'.

    changed: paths that differ between the revisions.
    """
    start = chain.labels[0]
    if chain.file is not None:
        if any(change.name == OUTSIDE for change in chain.changes):
            return f"{chain.file}, {OUTSIDE}: it cannot be compared"
        return f"{chain.file}: {_BIT}" if _is_only_mode(chain) else chain.file
    if chain.new:
        return f"{start}: new target"
    names = ", ".join(change.name for change in telling(chain.changes)[:3])
    if names.startswith(_OPTION):
        return f".bazelrc: {names.replace(_OPTION, '')}"
    if start.startswith("@"):
        return f"{names} of the lock" if names.startswith("wheel ") else f"{start}: {names}"
    return f"{start}: {names}{_macros(start, changed)}" if names else start


def _is_only_mode(chain: Chain) -> bool:
    values = [str(v).split(" ") for c in chain.changes for v in (c.old, c.new) if v is not None]
    known = len(values) == 2 and all(len(v) == 2 and _LINK not in v[0] for v in values)
    return known and values[0][1] == values[1][1]


def _macros(label: str, changed: Iterable[str]) -> str:
    """The .bzl files that may have made a rule different whose BUILD file did not change."""
    package = label.removeprefix("//").partition(":")[0]
    paths = [*changed]
    if any(p.rpartition("/")[0] == package for p in paths if inputs.is_build_file(p)):
        return ""
    loaded = [path for path in paths if inputs.is_loaded_file(path)]
    more = f" and {len(loaded) - 2} more" if len(loaded) > 2 else ""
    return f", perhaps by {' or '.join(loaded[:2])}{more}" if loaded else ""


def _all(tests: Iterable[str], head: Revision, reason: str) -> list[Affected]:
    short = reason.splitlines()[0]
    return [Affected(test, head.placement_of(test), EVERYTHING, short) for test in tests]


def _steering_changes(base: Revision, head: Revision, tracer: Tracers) -> list[str]:
    """Reasons for which every target may differ, whatever its own digest says."""
    old, new = base.steering, head.steering
    paths = old.identities.keys() | new.identities.keys()
    reasons = [
        f"{path} changed: it steers Bazel itself"
        for path in sorted(paths)
        if old.identities.get(path) != new.identities.get(path)
    ]
    outside = {*loaded_outside(base.files, base.steering, base.graph)}
    outside |= {*loaded_outside(head.files, head.steering, head.graph)}
    reasons += [f"{path}, {OUTSIDE}, cannot be compared" for path in sorted(outside)]
    if old.locks != new.locks:
        reasons.append(f"pip_parse reads other locks: {old.locks} before, {new.locks} now")
    for label in sorted(_implied(base) | _implied(head)):
        if tracer.changed(label):
            reasons.append(f"{label} changed: toolchains and platforms reach every target")
    if tracer.of_pool(pools.CPU).head.branches.has_transitions():
        reasons += _flag_changes(base.graph, head.graph)
    return reasons


def _flag_changes(base: graph.Graph, head: graph.Graph) -> list[str]:
    reasons = []
    apart = layered.apart(base.index, head.index)
    for label in sorted(head.targets if apart is None else apart):
        flag = head.targets.get(label)
        if flag is None:
            continue
        before = base.targets.get(label, flag).attributes.get(graph.FLAG_DEFAULT)
        if flag.attributes.get(graph.FLAG_DEFAULT) != before:
            reasons.append(f"{label} has another default: transitions may read it anywhere")
    return reasons


def _implied(revision: Revision) -> set[str]:
    """Targets that can reach any other with no edge in the graph."""
    targets = revision.graph.targets
    implied = {label for label in revision.steering.labels if label in targets}
    for label in revision.graph.index.of_class(_IMPLIED.__contains__):
        implied.add(label)
        toolchain = targets[label].attributes.get("toolchain")
        if isinstance(toolchain, str):
            implied.add(canonical(toolchain))
    return implied
