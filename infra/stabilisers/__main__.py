"""``make stabilisers``: every clipper, optimizer and rollback in one toy, and CheckFree's remedies in another."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holter.infra.bench.figures import table
from holter.infra.stabilisers import campaign as campaigns
from holter.infra.stabilisers.arms import ARMS
from holter.infra.stabilisers.campaign import LONG_CAMPAIGN, QUICK_CAMPAIGN, Campaign, Job, Results
from holter.infra.stabilisers.cost import QUICK_COST, CostSetting, measure
from holter.infra.stabilisers.document import as_json
from holter.infra.stabilisers.markdown import tables
from holter.infra.stabilisers.report import show

_LINE_SECONDS = 30.0


def stabilisers(
    only: Annotated[list[str] | None, typer.Option("--only", help=f"Of {', '.join(ARMS)}; may be repeated.")] = None,
    quick: Annotated[bool, typer.Option(help="Ten seconds: whether all of it runs. Its numbers say nothing.")] = False,
    long: Annotated[
        bool,
        typer.Option(
            "--long", help="Instead, a burst of the learning rate in longer runs of a larger toy (five minutes)."
        ),
    ] = False,
    checkfree: Annotated[bool, typer.Option(help="CheckFree's remedies too.")] = True,
    folder: Annotated[Path, typer.Option(help="Kept results; what is there is not computed again.")] = Path(
        ".holter/stabilisers"
    ),
    jobs: Annotated[int, typer.Option(min=1, help="Processes; each uses one core.")] = max(1, os.cpu_count() or 1),
    cost: Annotated[
        bool,
        typer.Option("--cost", help="Instead, what each adds to a training step at 30 M parameters (ten minutes)."),
    ] = False,
    show_only: Annotated[bool, typer.Option("--show", help="Show what there is, compute nothing.")] = False,
    with_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables of docs/stabilisers.md, of what is whole.")
    ] = False,
    with_json: Annotated[bool, typer.Option("--json", help="End with one JSON object on the last line.")] = False,
) -> None:
    """Measure every stabiliser on the same small GPT, clean and hurt, beside what its authors claim.

    Some 25 minutes on two cores; interrupted, it goes on where it was.

    Exit codes: 0 measured (targets met or not), 2 no such stabiliser. Example: make stabilisers ARGS="--only zclip"
    """
    console = Console(stderr=with_json)
    if not console.is_terminal:
        console = Console(stderr=with_json, width=220)
    if cost:
        _measure_cost(QUICK_COST if quick else CostSetting(), console, with_json)
        return
    campaign = _chosen(QUICK_CAMPAIGN if quick else LONG_CAMPAIGN if long else Campaign(), only, checkfree, console)
    results = Results(folder, campaign)
    if not show_only:
        _run(campaign, results, jobs, console)
    trials, recoveries = results.trials(), results.recoveries()
    document = as_json(campaign, trials, recoveries)
    if with_markdown:
        print("\n\n".join(tables(document)))
    else:
        show(console, campaign, trials, recoveries)
    if with_json:
        print(json.dumps(document))


def _measure_cost(setting: CostSetting, console: Console, with_json: bool) -> None:
    measured = measure(setting, lambda said: console.print(said, highlight=False))
    console.print(table(measured))
    if with_json:
        print(json.dumps({figure.name: figure.value for figure in measured}))


def _chosen(campaign: Campaign, only: list[str] | None, checkfree: bool, console: Console) -> Campaign:
    if unknown := [name for name in only or () if name not in ARMS]:
        console.print(f"[red]there is no stabiliser {unknown[0]}; there are {', '.join(ARMS)}[/red]")
        raise typer.Exit(2)
    if only:
        campaign = replace(campaign, arms=tuple(only))
    return campaign if checkfree else replace(campaign, ordering=None)


def _run(campaign: Campaign, results: Results, num_processes: int, console: Console) -> None:
    total = len(campaign.jobs())
    num_done = sum(results.has(job) for job in campaign.jobs())
    if num_done:
        console.print(f"{num_done} of {total} are there already")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("trials", total=total, completed=num_done)
        lines = _Lines(console, num_done, total)

        def done(job: Job) -> None:
            bar.update(task, advance=1, description=job.name)
            lines.done(job)

        campaigns.run(campaign, results, num_processes, done)


class _Lines:
    """For logs: a line every half minute instead of a bar."""

    def __init__(self, console: Console, num_done: int, total: int) -> None:
        self._console, self._num_done, self._total = console, num_done, total
        self._told = time.monotonic()

    def done(self, job: Job) -> None:
        self._num_done += 1
        if not self._console.is_terminal and time.monotonic() - self._told > _LINE_SECONDS:
            self._told = time.monotonic()
            self._console.print(f"{self._num_done} of {self._total}: {job.name}", highlight=False)


if __name__ == "__main__":
    typer.run(stabilisers)
