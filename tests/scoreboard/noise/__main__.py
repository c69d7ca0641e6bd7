"""``python -m tests.scoreboard.noise``: false signals and power of Holter on healthy noise of every kind."""

from __future__ import annotations

import json
import math
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.scoreboard.noise.kinds import HARDER, NAMES, NUM_RECORDS
from tests.scoreboard.noise.measure import Measured, Plan, measure

CADENCES = (1, 10)


def main(
    rows: Annotated[int, typer.Option(min=1_000, help="Healthy rows of each kind and cadence.")] = 100_000,
    only: Annotated[
        list[str] | None, typer.Option("--only", help=f"Of {', '.join(NAMES)} and the harder ones.")
    ] = None,
    harder: Annotated[bool, typer.Option(help="Also the same kinds with other parameters.")] = False,
    grad: Annotated[bool, typer.Option("--grad", help="The noise is the gradient norm's, the loss is calm.")] = False,
    power: Annotated[bool, typer.Option(help="Also the share of jumps seen.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Measure how often Holter cries wolf on healthy noise, and what it still sees in it."""
    names = only or [*NAMES, *(HARDER if harder else ())]
    if unknown := set(names) - {*NAMES, *HARDER}:
        raise typer.BadParameter(f"no noise is named {', '.join(sorted(unknown))}")
    metric = GRAD_NORM if grad else LOSS
    plans = [Plan(rows, min(rows, NUM_RECORDS), every, metric) for every in CADENCES]
    measured = {
        name: [measure(name, plan, power) for plan in plans]
        for name in track(names, console=Console(stderr=True), transient=True)
    }
    if as_json:
        print(json.dumps({name: [as_row(one) for one in both] for name, both in measured.items()}))
    else:
        console = Console()
        console.print(table(measured), no_wrap=True, width=max(100, console.width))


def as_row(one: Measured) -> dict[str, float | None]:
    row = {"rows": one.num_rows, "false_per_10k": one.false_per_10k, "power": one.power, "oracle": one.oracle_power}
    return {key: None if math.isnan(value) else round(value, 3) for key, value in row.items()}


def table(measured: dict[str, list[Measured]]) -> Table:
    shown = Table(title="false signals per 10,000 rows; share of jumps to 4 x the median seen")
    shown.add_column("noise", no_wrap=True)
    shown.add_column("log sd", justify="right")
    for every in CADENCES:
        for column in (f"false@{every}", "power", "oracle"):
            shown.add_column(column, justify="right")
    for name, both in measured.items():
        cells = [cell for one in both for cell in (one.false_per_10k, one.power, one.oracle_power)]
        shown.add_row(name, f"{both[0].log_sd:.2f}", *("-" if math.isnan(cell) else f"{cell:.2f}" for cell in cells))
    return shown


if __name__ == "__main__":
    typer.run(main)
