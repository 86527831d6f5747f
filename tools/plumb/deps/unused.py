"""Deps and data that a call declares and none of its targets makes use of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.plumb.deps.build_files import Literal
from tools.plumb.deps.calls import Declared
from tools.plumb.deps.findings import Finding, Kind
from tools.plumb.deps.needs import Needs, Reader
from tools.plumb.deps.workspace import is_runnable, labels


def find(call: Declared, needed: Sequence[Needs], reader: Reader) -> Iterator[Finding]:
    """A finding for each label of `call` that has no use, and for each wrong exemption.

    A label that the call does not write itself comes from a macro, which knows why.
    """
    literals = call.call.literals if call.call is not None else ()
    for literal in dict.fromkeys(literals):
        users = [need for need in needed if literal.label in labels(need.target, "deps")]
        idle = bool(users) and not any(_uses(need, literal.label, reader) for need in users)
        if not users:
            users = [need for need in needed if literal.label in labels(need.target, "data")]
            idle = bool(users) and not any(_reads(need, literal, call, reader) for need in users)
        if users:
            yield from _judged(call, literal, users, idle)


def _judged(
    call: Declared, literal: Literal, users: Sequence[Needs], idle: bool
) -> Iterator[Finding]:
    targets = tuple(sorted(need.target.label for need in users))
    where = f"{call.build_file}:{literal.line}"

    def finding(kind: Kind, label: str, by_hand: str) -> Finding:
        what = literal.written
        return Finding(kind, call.label, targets, literal.attribute, label, where, what, by_hand)

    if literal.keep == "":
        hint = 'write "# plumb: keep, REASON": the reader has to know what needs it'
        yield finding(Kind.EXEMPTION, "", hint)
    elif literal.keep and not idle:
        yield finding(Kind.EXEMPTION, "", "it is used: delete its `plumb: keep`")
    elif idle and literal.keep is None:
        yield finding(Kind.UNUSED, literal.label, call.by_hand)


def _uses(need: Needs, label: str, reader: Reader) -> bool:
    given = reader.resolver.provided(label)
    if not reader.resolver.sources(need.target.label) or not need.readable or not given:
        # It hands its deps on; or nobody knows; or the dep holds no module.
        return True
    return bool(need.used & (given | reader.workspace.files(label)))


def _reads(need: Needs, literal: Literal, call: Declared, reader: Reader) -> bool:
    files = reader.workspace.files(literal.label)
    plain = len(files) == 1 and next(iter(files)) in reader.workspace.paths
    if not is_runnable(need.target) or not plain:
        return True
    others = [o for o in (call.call.literals if call.call else ()) if o.attribute != "data"]
    if any(literal.written in other.written for other in others):
        return True
    name = next(iter(files)).rpartition("/")[2]
    sources = (p for p in reader.resolver.closure(need.target.label) if p.endswith(".py"))
    texts = (reader.workspace.text(p) for p in sources if p in reader.workspace.paths)
    # A module as data is imported by its bare name.
    wanted = (name.removesuffix(".py"), f"*.{name.rpartition('.')[2]}")
    return bool(files & need.used) or any(word in text for text in texts for word in wanted)
