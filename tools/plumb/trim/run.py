"""Answers a request: reads the ground, asks the modules, prints, and gives the exit code."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import typer

from tools.plumb import streams
from tools.plumb.cells.load import Loaded
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.trim import answer as answers
from tools.plumb.trim import ground as grounds
from tools.plumb.trim import waivers
from tools.plumb.trim.change import Change, Labels, Merge, before_and_after, resolve
from tools.plumb.trim.evidence import store
from tools.plumb.trim.evidence.judge import Judgement, judge
from tools.plumb.trim.ground import Ground
from tools.plumb.trim.optimise.result import Choice, Wish
from tools.plumb.trim.propose import dead, dominated, servers, stale, twins
from tools.plumb.trim.propose.candidate import Candidate, Kind
from tools.plumb.trim.report import fields, lists, markdown, text
from tools.plumb.trim.request import Format, Question, Request, weights


def run(request: Request, loaded: Loaded, today: datetime.date) -> ExitCode:
    """Prints the answer. The code is TESTS_FAILED if a change loses what no waiver accepts."""
    question = request.question
    ground = grounds.of(loaded)
    _remark(ground)
    if question is Question.PROPOSE:
        return _propose(request, ground)
    held = waivers.parse(ground.text(waivers.PATH) or "")
    if question is Question.OPTIMISE:
        return _optimise(request, ground, held, today)
    return _change(request, ground, held, today)


def _remark(ground: Ground) -> None:
    for label, arch, why in ground.undeclared:
        said = f"tag it skipped_on:{arch}, so that `plumb coverage` knows it too"
        typer.echo(f"plumb: {label} covers nothing on {arch}: {why}; {said}", err=True)


def _change(
    request: Request, ground: Ground, held: tuple[waivers.Waiver, ...], today: datetime.date
) -> ExitCode:
    labels = Labels(ground.model.tests, ground.suites)
    change = resolve(labels, request.drop, request.merge, request.add)
    answer = answers.answer(ground, change, held, today)
    judged = _judged(request, ground, change)
    console = streams.stdout_console()
    with streams.answering(console):
        if request.output is Format.TEXT:
            text.print_answer(console, answer, judged)
        elif request.output is Format.MARKDOWN:
            typer.echo(markdown.as_markdown(answer, judged))
        else:
            content = fields.of_answer(answer)
            typer.echo(fields.as_json({**content, "evidence": fields.of_judgements(judged)}))
    return ExitCode.TESTS_FAILED if answer.refused else ExitCode.OK


def _judged(request: Request, ground: Ground, change: Change) -> list[Judgement]:
    if request.evidence is None:
        return []
    evidence = store.read(request.evidence)
    before, after = before_and_after(ground.model, change)
    return judge(evidence, before, after, change.goes, ground.text)


def _propose(request: Request, ground: Ground) -> ExitCode:
    makers: dict[Kind, Callable[[], list[Candidate]]] = {
        Kind.TWINS: lambda: twins.candidates(ground.sources),
        Kind.SERVERS: lambda: servers.candidates(ground.sources),
        Kind.DEAD: lambda: dead.candidates(ground.sources, ground.graph),
        Kind.DOMINATED: lambda: dominated.candidates(ground.model),
    }
    if request.measured is not None:
        measured = stale.read(request.measured)
        makers[Kind.STALE] = lambda: stale.candidates(ground.model, measured)
    elif Kind.STALE in request.kinds:
        raise PlumbError("stale seconds are found beside measured ones: name them by --measured.")
    wanted = request.kinds or tuple(makers)
    found = [candidate for kind in wanted for candidate in makers[kind]()]
    console = streams.stdout_console()
    with streams.answering(console):
        if request.output is Format.JSON:
            typer.echo(fields.as_json(fields.of_candidates(found)))
        else:
            lists.print_candidates(console, found, request.show_all)
    return ExitCode.OK


def _optimise(
    request: Request, ground: Ground, held: tuple[waivers.Waiver, ...], today: datetime.date
) -> ExitCode:
    # scipy takes half a second to load, and nothing else of plumb needs it.
    from tools.plumb.trim.optimise.choice import choose

    waivers.require_claims(held, ground.model.claims.keys())
    labels = Labels(ground.model.tests, ground.suites)
    add = resolve(labels, (), (), request.add).add
    wish = Wish(
        request.budget,
        frozenset(waiver.cell for waiver in held if not waiver.expired(today)),
        frozenset(label for named in request.keep for label in labels.resolve(named)),
        weights(request.weights, list(ground.model.claims)),
        request.seconds,
    )
    choice = choose(ground.model, merges_of(ground), wish)
    answer = _checked(ground, choice, add, wish)
    console = streams.stdout_console()
    with streams.answering(console):
        if request.output is Format.JSON:
            content: dict[str, Any] = fields.of_answer(answer)
            del content["waivers"], content["refused"]
            typer.echo(fields.as_json({**content, "choice": fields.of_choice(choice)}))
        else:
            lists.print_choice(console, choice)
            text.print_plan(console, answer)
    return ExitCode.OK


def merges_of(ground: Ground) -> list[Merge]:
    """Tests that may become one, as far as their servers go."""
    return [Merge(candidate.tests) for candidate in servers.candidates(ground.sources)]


def _checked(ground: Ground, choice: Choice, add: tuple[str, ...], wish: Wish) -> answers.Answer:
    """The choice as a change, judged by the rules of --drop: the solver's word is not enough."""
    kept = tuple(label for label in add if label not in choice.change.goes)
    change = Change(choice.change.drop, choice.change.merges, kept)
    change = Change(tuple(t for t in change.drop if t not in add), change.merges, kept)
    answer = answers.answer(ground, change, (), datetime.date.min)
    given_up = {*choice.given_up, *wish.waived}
    lost = [cell.cell for cell in answer.losses if cell.cell not in given_up]
    if lost and wish.budget is None:
        raise PlumbError(f"the choice loses {lost[0]}, though it should not.", ExitCode.ENVIRONMENT)
    return answer
