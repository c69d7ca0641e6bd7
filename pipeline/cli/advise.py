"""``holter advise``: which stabilisers a job should begin with."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from holter.infra.stabilisers.measured import MEASURED
from holter.pipeline.cli.advise_quotes import Document, NoTable, claim, measured, measured_of, wording
from holter.pipeline.cli.sql import default_dsn, explain
from holter.pipeline.core.advise.needs import Family, History, Needs, Use, history_of, parameters_of
from holter.pipeline.core.advise.selection import Advice, Pick
from holter.pipeline.core.advise.selection import advise as select
from holter.pipeline.store.client import connect, store_errors
from holter.pipeline.store.dsn import DSN_VARIABLE, Dsn, parse_dsn
from holter.pipeline.store.errors import StoreError

_OF_RUN = "project = {project:String} AND ({run:String} = '' OR run = {run:String})"
_KINDS = f"SELECT kind, count(), countIf(state = 'lost') FROM incidents WHERE {_OF_RUN} GROUP BY kind"
_STEPS = f"SELECT count(), sum(ifNull(last_step, 0)) FROM runs WHERE {_OF_RUN}"


def known_parameters(text: str) -> str:
    """Refuses what is no number of parameters."""
    try:
        parameters_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text


def known_use(use: str) -> str:
    if use not in get_args(Use):
        raise typer.BadParameter(f"{use!r} is none of {', '.join(get_args(Use))}")
    return use


def known_optimizer(family: str) -> str:
    if family not in get_args(Family):
        raise typer.BadParameter(f"{family!r} is none of {', '.join(get_args(Family))}")
    return family


def advise(
    parameters: Annotated[str, typer.Option("--parameters", callback=known_parameters, help="Of the model: 124M, 7B.")],
    of_run: Annotated[
        str | None, typer.Argument(metavar="[PROJECT[/RUN]]", help="Whose history in the store counts.")
    ] = None,
    use: Annotated[
        str, typer.Option(callback=known_use, help=f"What it is for: {', '.join(get_args(Use))}.")
    ] = "production",
    optimizer: Annotated[
        str, typer.Option(callback=known_optimizer, help=f"Its family: {', '.join(get_args(Family))}.")
    ] = "adam",
    stages: Annotated[int, typer.Option(min=1, help="Stages of pipeline parallelism.")] = 1,
    usd_per_month: Annotated[float | None, typer.Option(min=0.0, help="What the job costs.")] = None,
    save_seconds: Annotated[float | None, typer.Option(min=0.001, help="To save a checkpoint.")] = None,
    mtbf_hours: Annotated[float | None, typer.Option(min=0.001, help="From one failure to the next.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps that the following numbers are of.")] = None,
    gradient: Annotated[int, typer.Option(min=0, help="Exploding gradients in them.")] = 0,
    update: Annotated[int, typer.Option(min=0, help="Exploding updates.")] = 0,
    loss: Annotated[int, typer.Option(min=0, help="Jumps of the loss alone.")] = 0,
    nonfinite: Annotated[int, typer.Option(min=0, help="NaN and infinite values.")] = 0,
    lost: Annotated[int, typer.Option(min=0, help="Of all these, those that did not heal.")] = 0,
    table: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="What `make stabilisers ARGS=--json` printed, to be quoted.",
            show_default="the one that comes with Holter",
        ),
    ] = MEASURED,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    dsn: Annotated[
        str | None, typer.Option(envvar=DSN_VARIABLE, help="The store; by default the one that `holter up` started.")
    ] = None,
) -> None:
    """Say which stabilisers a job should begin with: by its use, its size, what has happened, and its cost.

    What has happened comes from the store, or from --steps and the numbers of
    incidents in them. Numbers are quoted from the table that `make
    stabilisers` measured; what its authors claim is said to be a claim.

    Example: holter advise --parameters 7B --steps 20000 --gradient 12 --usd-per-month 8000
    """
    needs = Needs(
        parameters_of(parameters),
        cast(Use, use),
        cast(Family, optimizer),
        stages,
        usd_per_month,
        save_seconds,
        mtbf_hours,
    )
    try:
        history = (
            _from_store(of_run, dsn) if of_run else _from_numbers(steps, (gradient, update, loss, nonfinite, lost))
        )
    except StoreError as error:
        typer.echo(f"holter advise: {explain(error)}", err=True)
        raise typer.Exit(2) from None
    document = _table(table)
    advice = select(needs, history)
    if as_json:
        typer.echo(json.dumps(as_document(advice, history, document)))
    else:
        print_advice(Console(), advice, document)


def _from_numbers(steps: int | None, numbers: Sequence[int]) -> History | None:
    if steps is None:
        if any(numbers):
            raise typer.BadParameter("say in how many steps the incidents were", param_hint="--steps")
        return None
    return History(steps, *numbers)


def _table(path: Path) -> Document:
    try:
        return measured(path)
    except NoTable as error:
        raise typer.BadParameter(str(error), param_hint="--table") from None


def _from_store(of_run: str, dsn: str | None) -> History:
    """Raises:
    StoreError: the store does not answer, or has no such run.
    """
    text = dsn or default_dsn(os.environ)
    if not text:
        raise StoreError(f"no store is known here: run `holter up`, give --dsn, set {DSN_VARIABLE}, or give --steps")
    project, _, run = of_run.partition("/")
    names = {"project": project, "run": run}
    (num_runs, num_steps), *_ = _ask(parse_dsn(text), _STEPS, names)
    if not num_runs:
        raise StoreError(f"the store has no run of {of_run}")
    rows = _ask(parse_dsn(text), _KINDS, names)
    counts = {str(kind): int(count) for kind, count, _ in rows}
    return history_of(counts, sum(int(num_lost) for _, _, num_lost in rows), int(num_steps))


def _ask(dsn: Dsn, query: str, names: dict[str, str]) -> Sequence[Sequence[Any]]:
    client = connect(dsn)
    try:
        with store_errors(dsn):
            rows: Sequence[Sequence[Any]] = client.query(query, parameters=names, settings={"readonly": 2}).result_rows
            return rows
    finally:
        client.close()


def as_document(advice: Advice, history: History | None, document: Document) -> dict[str, Any]:
    return {
        "path": [{"question": question, "answer": answer} for question, answer in advice.path],
        "advised": [_described(pick, document) for pick in advice.picks],
        "not_for_this_job": [{"name": pick.stabiliser.name, "why": pick.why} for pick in advice.against],
        "history": None if history is None else asdict(history),
        "measured_setting": document.get("setting"),
    }


def _described(pick: Pick, document: Document) -> dict[str, Any]:
    stabiliser = pick.stabiliser
    return {
        "name": stabiliser.name,
        "why": pick.why,
        "how": stabiliser.how,
        "limits": stabiliser.limits,
        "measured": measured_of(document, stabiliser.arm),
        "claimed": claim(stabiliser),
    }


def print_advice(console: Console, advice: Advice, document: Document) -> None:
    for question, answer in advice.path:
        console.print(Text.assemble((f"{question} ", "dim"), answer))
    for pick in advice.picks:
        console.print()
        console.print(Text.assemble((pick.stabiliser.name, "bold"), f": {pick.why}"))
        for label, text in _lines(pick, document):
            console.print(Padding(Text(f"{label}: {text}"), (0, 0, 0, 4)))
    if advice.against:
        console.print()
    for pick in advice.against:
        console.print(Text.assemble(("not ", "yellow"), pick.stabiliser.name, f": {pick.why}"))
    console.print()
    console.print(Text(_source(advice, document), "dim"))


def _source(advice: Advice, document: Document) -> str:
    """Of the measured numbers that were quoted."""
    if any(measured_of(document, pick.stabiliser.arm) for pick in advice.picks):
        return f"measured by make stabilisers: {document.get('setting', '')}"
    return "none of these is in the measured table"


def _lines(pick: Pick, document: Document) -> list[tuple[str, str]]:
    stabiliser = pick.stabiliser
    lines = [
        ("how", stabiliser.how),
        ("know", stabiliser.limits),
        ("measured", wording(document, stabiliser.arm)),
        ("its authors claim", claim(stabiliser)),
    ]
    return [(label, text) for label, text in lines if text]
