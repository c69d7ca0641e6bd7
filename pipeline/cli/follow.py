"""``holter follow``: a run that logs elsewhere only, judged while it runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from holter import producers
from holter.producers.integrations.follow import Followed, follow_source, names_by_tag, open_source
from holter.producers.integrations.scalars import ScalarSource
from holter.producers.integrations.tracked_names import TrackedNames
from holter.producers.run import Run

_FAILED, _UNUSABLE = 1, 2


def follow(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A TensorBoard folder, a run's .wandb file, or JSON lines.")
    ],
    project: Annotated[str, typer.Option(help="Of the run that is made of it.")],
    run_name: Annotated[str | None, typer.Option("--run", help="By default the name of folder or file.")] = None,
    named: Annotated[
        list[str] | None, typer.Option("--map", metavar="TAG=METRIC", help="Such as ce=train/loss, for each.")
    ] = None,
    idle_seconds: Annotated[
        float, typer.Option(min=0.0, help="Ends when nothing was written for so long; 0 with what is there.")
    ] = 3600.0,
    poll_seconds: Annotated[float, typer.Option(min=0.1, help="Between two looks.")] = 2.0,
) -> None:
    """Log what a run writes for TensorBoard, for W&B or as JSON lines as a run of Holter's, while it is written.

    Example: holter follow logs/run-7 --project my-project

    Exit codes: 0 the run ended, or Ctrl-C; 1 it became unreadable; 2 wrong usage, nothing there, or no number in it.
    """
    source, place = _opened(path), path.resolve()
    try:
        names = TrackedNames(names_by_tag(named or []))
        run = producers.init(project, run_name or (place.name if place.is_dir() else place.stem))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    followed = Followed(run, names, lambda: time.time_ns() // 1_000_000)
    is_whole = _follow(source, followed, run, idle_seconds, poll_seconds)
    typer.echo(f"{followed.num_scalars:,} values of {path} are run {run.name!r} of project {run.project!r}")
    if unreadable := getattr(source, "num_unreadable", 0):
        typer.echo(f"{unreadable:,} lines are no JSON objects and were left out", err=True)
    if not followed.num_scalars:
        raise typer.Exit(_UNUSABLE)
    if not is_whole:
        raise typer.Exit(_FAILED)


def _opened(path: Path) -> ScalarSource:
    try:
        return open_source(path)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _follow(source: ScalarSource, followed: Followed, run: Run, idle_seconds: float, poll_seconds: float) -> bool:
    """Whether it could be read to its end."""
    try:
        follow_source(source, followed, idle_seconds, poll_seconds)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
    except Exception as error:  # a stranger's reader may raise anything; what was read so far stays
        typer.echo(f"no longer readable: {error}", err=True)
        return False
    finally:
        run.finish("ended")
    return True
