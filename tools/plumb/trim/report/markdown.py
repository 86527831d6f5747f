"""The answer to `plumb trim --drop …` as the text of a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tools.plumb.trim.answer import Answer
from tools.plumb.trim.evidence.judge import Judgement
from tools.plumb.trim.outcome import CellChange, State
from tools.plumb.trim.report.text import unclaimed
from tools.plumb.trim.saving import Saving


def as_markdown(answer: Answer, judged: Sequence[Judgement]) -> str:
    """What goes, what that saves, what is lost, who keeps the rest, and who accepted what."""
    parts = [_headline(answer), _savings(answer), _dropped(answer), _losses(answer)]
    parts += [_kept(answer), _doubts(answer), _evidence(judged), _waivers(answer), _open(answer)]
    return "\n\n".join(part for part in parts if part)


def _headline(answer: Answer) -> str:
    total = answer.total.change
    gone = len(answer.change.goes)
    new = f", {len(answer.change.add)} new" if answer.change.add else ""
    merged = f", {len(answer.change.merges)} merged" if answer.change.merges else ""
    return (
        f"## Trim: {gone} {'test goes' if gone == 1 else 'tests go'}{merged}{new}\n\n"
        f"{total.seconds:+d} s and {total.gpu_seconds:+d} GPU-s. "
        f"{_count(answer.of_state(State.LOST), 'cell')} lost, "
        f"{len(answer.of_state(State.WEAKENED))} weakened, "
        f"{len(answer.of_state(State.KEPT))} kept, {len(answer.of_state(State.WON))} won."
    )


def _savings(answer: Answer) -> str:
    rows = [(name, saving) for name, saving in answer.suites.items()]
    rows += [(f"pool {name}", saving) for name, saving in answer.pools.items()]
    return _table(
        ("suite", "tests", "seconds", "change", "GPU-seconds"),
        [(f"`{name}`", *_figures(saving)) for name, saving in rows],
    )


def _figures(saving: Saving) -> tuple[str, ...]:
    change = saving.change
    return (
        f"{change.tests:+d}",
        f"{saving.before.seconds} → {saving.after.seconds}",
        f"{change.seconds:+d} s",
        f"{change.gpu_seconds:+d}",
    )


def _dropped(answer: Answer) -> str:
    rows = []
    for dropped in answer.dropped:
        test = dropped.test
        seconds = "?" if test.seconds is None else str(test.seconds)
        rows.append((f"`{test.label}`", seconds, str(test.gpus), str(dropped.verdict)))
    return _table(("test that goes", "seconds", "GPUs", "verdict"), rows)


def _losses(answer: Answer) -> str:
    rows = [
        (f"`{c.cell.claim}`", c.cell.arch, c.cell.cadence, str(c.state), _why(c))
        for c in answer.losses
    ]
    rows += [
        (f"`{c.cell.claim}`", c.cell.arch, c.cell.cadence, "promised, not given", _why(c))
        for c in answer.unmet
    ]
    if not rows:
        return unclaimed(answer) or "Nothing is lost or weakened."
    table = _table(("claim", "architecture", "cadence", "state", "why"), rows)
    return f"### Lost and weakened\n\n{table}"


def _why(change: CellChange) -> str:
    if change.missing is None:
        return ""
    near = ", ".join(f"`{near.test.label}`" for near in change.missing.near[:3])
    return change.missing.sentence + (f" ({near})" if near else "")


def _kept(answer: Answer) -> str:
    rows = [
        (f"`{c.cell.claim}`", c.cell.arch, c.cell.cadence, _named(t.label for t in c.after))
        for c in [*answer.of_state(State.KEPT), *answer.of_state(State.WON)]
    ]
    if not rows:
        return ""
    table = _table(("claim", "architecture", "cadence", "covered by"), rows)
    return f"<details><summary>{len(rows)} cells stay covered</summary>\n\n{table}\n\n</details>"


def _named(labels: Iterable[str]) -> str:
    every = list(labels)
    more = f" and {len(every) - 3} more" if len(every) > 3 else ""
    return ", ".join(f"`{label}`" for label in every[:3]) + more


def _doubts(answer: Answer) -> str:
    lines = [f"- `{label}`: {doubt}" for label, all_ in answer.doubts.items() for doubt in all_]
    return "### Doubtful equivalences\n\n" + "\n".join(lines) if lines else ""


def _evidence(judged: Sequence[Judgement]) -> str:
    lines = []
    for judgement in judged:
        lines.append(f"- `{judgement.label}`: **{judgement.verdict}**")
        lines += [f"  - {reason}" for reason in judgement.reasons]
        lines += [
            f"  - only it runs `{path}`: {', '.join(ranges)}"
            for path, ranges in judgement.lines.items()
        ]
        lines += [f"  - only it kills `{fault}`" for fault in judgement.faults]
    return "### Evidence\n\n" + "\n".join(lines) if lines else ""


def _waivers(answer: Answer) -> str:
    rows = [
        (f"`{w.cell}`", w.reason, w.owner, w.expires.isoformat()) for w in answer.waivers.accepted
    ]
    if not rows:
        return ""
    return "### Accepted losses\n\n" + _table(("cell", "reason", "owner", "expires"), rows)


def _open(answer: Answer) -> str:
    if not answer.refused:
        return ""
    return "### To settle before this goes in\n\n" + "\n".join(f"- {t}" for t in answer.refused)


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(c.replace('|', '&#124;') for c in line)} |" for line in lines)
