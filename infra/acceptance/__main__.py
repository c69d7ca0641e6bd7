"""``make acceptance``: the design report's six figures, with what they mean, their targets and what was measured."""

from __future__ import annotations

import json
import math
import os
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from holter.infra.acceptance.from_matrix import from_matrix
from holter.infra.acceptance.from_stack import from_stack, unmeasured
from holter.infra.bench.figures import Figure
from holter.infra.rescue import matrix
from holter.infra.rescue.lockstep import Pace
from holter.infra.rescue.results import Results
from holter.infra.rescue.run import run_with_progress
from holter.infra.rescue.score import cases
from holter.infra.settings import settings_from_env

DEFINITIONS = {
    "detection_latency_seconds": "from a step's log to the answer in the trainer, through broker and cluster",
    "detection_accuracy": "runs rightly called hurt (within 50 steps) or unhurt",
    "false_alarm_rate": "share of incidents that open where nothing is wrong",
    "recovery_success": "damaged runs of which the treatment closes 80 % of the gap to an unhurt twin",
    "compute_overhead": "what the guard adds to a step",
    "rpo_steps": "good steps that a rollback gives up, at most",
}
_WIDTH_IN_FILES = 170


def acceptance(
    seeds: Annotated[int, typer.Option(min=1, max=9, help="Of the rescue matrix, from 1.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = os.cpu_count() or 1,
    stack: Annotated[bool, typer.Option(help="Measure latency and overhead on a stack of their own.")] = True,
    scale: Annotated[float, typer.Option(min=0.05, max=10.0, help="Share of the usual samples of those two.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object on the last line.")] = False,
) -> None:
    """Measure the six figures by which the design report accepts such a system.

    What the rescue matrix has run already (make rescue) is taken from there.
    Exit codes: 0 all met, 1 something is not met or failed. Example: make acceptance ARGS="--seeds 1 --no-stack"
    """
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=_WIDTH_IN_FILES)
    figures = _measured(matrix.Matrix(seeds=tuple(range(1, seeds + 1))), jobs, stack, scale, console)
    console.print(_table(figures))
    if as_json:
        print(json.dumps({"figures": [_plain(figure) for figure in figures]}))
    if not all(figure.met for figure in figures):
        raise typer.Exit(1)


def _measured(wanted: matrix.Matrix, num_jobs: int, has_stack: bool, scale: float, console: Console) -> list[Figure]:
    pace = Pace()
    results = Results(settings_from_env(os.environ).home / "rescue", pace)
    try:
        judged = cases(run_with_progress(wanted, results, pace, num_jobs, console), results.curve)
    except matrix.ArmsFailed as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(1) from None
    found = [*from_matrix(judged, pace.step_seconds), *(from_stack(scale, console) if has_stack else unmeasured())]
    return sorted(found, key=lambda figure: list(DEFINITIONS).index(figure.name))


def _table(figures: list[Figure]) -> Table:
    shown = Table(title="The design report's acceptance figures", title_justify="left")
    for column in ("figure", "definition", "target", "measured", "met", "how"):
        shown.add_column(column, justify="right" if column in ("target", "measured") else "left")
    for figure in figures:
        sign = "≤" if figure.better == "lower" else "≥"
        value = f"{figure.value:.3g} {figure.unit}" if math.isfinite(figure.value) else "–"
        met = "yes" if figure.met else "[red]no[/red]"
        target = f"{sign} {figure.target:g} {figure.unit}"
        shown.add_row(figure.name, DEFINITIONS[figure.name], target, value, met, figure.note)
    return shown


def _plain(figure: Figure) -> dict[str, object]:
    value = figure.value if math.isfinite(figure.value) else None
    return {"name": figure.name, "target": figure.target, "value": value, "met": bool(figure.met)}


app = typer.Typer(add_completion=False)
app.command()(acceptance)

if __name__ == "__main__":
    app()
