"""``holter compare``: a run's log against that of a finished run of the same recipe, of any size."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from holter.pipeline.core.stats.loss_collapse import SMOOTHED_STEPS, Curve, Departure, curve_of, depart
from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.log import Log
from holter.pipeline.replay.reading import read_log
from holter.schemas.telemetry import LOSS, VAL_LOSS

_SHOWN_EVERY = 0.05
_FEWEST_HELD_OUT = 20


class _Compared(NamedTuple):
    metric: str
    num_steps: int
    found: Departure


def compare(
    run: Annotated[Path, typer.Argument(metavar="LOG", help="Of the run, which may still go on.", show_default=False)],
    reference: Annotated[Path, typer.Option(metavar="LOG", help="Of a finished run of the same recipe.")],
    steps: Annotated[
        int | None, typer.Option(min=1, help="That the run will have in all; by default it is taken to be finished.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Say whether, and since when, a run's loss is above what a finished run of the same recipe leads to expect.

    Loss curves of models of all sizes fall onto one where the schedule, tokens
    per parameter and the time scale of the weight decay are the same (Scaling
    with Collapse, 2509.25087). A slow fault shows there long before it shows in
    the loss itself. Held-out losses are compared where both logs have 20 of
    them, else training losses, averaged over 100 steps of the shorter run.

    Reads what `holter replay` reads. Exit codes: 0 compared, whatever was found;
    2 wrong usage, or a log could not be used.

    Example: holter compare 7b.jsonl --reference 300m.csv --steps 120000
    """
    try:
        compared = _compared(_log(run), _log(reference), steps)
    except ValueError as error:
        typer.echo(f"holter compare: {error}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps(_document(compared)))
    else:
        _print(Console(), compared)


def _log(path: Path) -> Log:
    """Raises:
    ValueError: it cannot be read.
    """
    try:
        return read_log(path)
    except UnreadableLog as error:
        raise ValueError(f"{path}: {error}") from None


def _compared(run: Log, reference: Log, num_steps: int | None) -> _Compared:
    """Raises:
    ValueError: they have no loss in common, or too little of it.
    """
    metric = VAL_LOSS if all(_num_losses(log, VAL_LOSS) >= _FEWEST_HELD_OUT for log in (run, reference)) else LOSS
    if not all(_num_losses(log, metric) for log in (run, reference)):
        raise ValueError("the two logs have no loss in common")
    num_steps, num_of_reference = num_steps or max(run.steps), max(reference.steps)
    share = 0.0 if metric == VAL_LOSS else SMOOTHED_STEPS / max(1, min(num_steps, num_of_reference))
    own, other = _curve(run, metric, num_steps, share), _curve(reference, metric, num_of_reference, share)
    return _Compared(metric, num_steps, depart(own, other))


def _curve(log: Log, metric: str, num_steps: int, smoothed_share: float) -> Curve:
    losses = [math.nan if loss is None else loss for loss in log.metrics[metric]]
    return curve_of(log.steps, losses, max(1, num_steps), round(smoothed_share * num_steps))


def _num_losses(log: Log, metric: str) -> int:
    return sum(loss is not None and math.isfinite(loss) for loss in log.metrics.get(metric, ()))


def _document(compared: _Compared) -> dict[str, Any]:
    found = compared.found
    return {
        "metric": compared.metric,
        "expected_final_loss": found.final_loss,
        "threshold": found.threshold,
        "onset_step": None if found.onset is None else round(found.onset * compared.num_steps),
        "residuals": [[round(share * compared.num_steps), residual] for share, residual in found.residuals],
    }


def _print(console: Console, compared: _Compared) -> None:
    metric, num_steps, found = compared
    shown = Table(title=f"{metric} above its reference, as a share of the final loss")
    for column in ("step", "of the run", "residual"):
        shown.add_column(column, justify="right")
    num_shown = 0
    for share, residual in found.residuals:
        if share >= found.residuals[0][0] + num_shown * _SHOWN_EVERY:
            far = "red" if residual > found.threshold else ""
            shown.add_row(f"{share * num_steps:,.0f}", f"{share:.0%}", f"{residual:+.4f}", style=far)
            num_shown += 1
    console.print(shown)
    console.print(_verdict(compared), highlight=False)


def _verdict(compared: _Compared) -> str:
    found, (share, residual) = compared.found, compared.found.residuals[-1]
    expected = f"it would end at {found.final_loss:.3f} if it followed its reference"
    if found.onset is None:
        return f"not above its reference by {found.threshold:.4f} or more, up to {share:.0%} of the run; {expected}"
    step = found.onset * compared.num_steps
    return (
        f"[red]above its reference since step {step:,.0f} ({found.onset:.0%} of the run)[/], now by {residual:+.4f}, "
        f"where {found.threshold:.4f} counts; {expected}"
    )
