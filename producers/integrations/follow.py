"""Holter for a run that only writes TensorBoard files, from a process beside it::

    python -m holter.producers.integrations.follow logs/run-7 --project my-project

It reads the folder while the run writes it and logs its scalars as a run of Holter's, which is then judged like any
other. Nothing can be applied: nobody in the training process asks for actions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from holter import producers
from holter.producers.integrations.event_files import EventFolder, Scalar
from holter.producers.integrations.tracked_names import TrackedNames
from holter.producers.run import Beginning, Run

_UNUSABLE = 2


class Followed:
    """Scalars as a run's values. A tag whose steps go back begins a new attempt: of a restart, or a rollback."""

    def __init__(self, run: Run, names: TrackedNames, clock_ms: Callable[[], int]) -> None:
        self._run = run
        self._names = names
        self._clock_ms = clock_ms
        self._last_steps: dict[str, int] = {}
        self.num_scalars = 0

    def take(self, scalars: Iterable[Scalar]) -> int:
        """Returns how many there were, without what Holter wrote itself."""
        before = self.num_scalars
        for scalar in scalars:
            if values := self._names.numbers({scalar.tag: scalar.value}):
                self._log(scalar, values)
        return self.num_scalars - before

    def _log(self, scalar: Scalar, values: Mapping[str, float]) -> None:
        if scalar.step < self._last_steps.get(scalar.tag, 0):
            self._last_steps.clear()
            self._run.begin(Beginning(self._clock_ms(), last_step=scalar.step - 1))
        self._last_steps[scalar.tag] = scalar.step
        self._run.log(values, scalar.step)
        self.num_scalars += 1


def follow(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the run writes its event files.")],
    project: Annotated[str, typer.Option(help="Of the run that is made of it.")],
    run_name: Annotated[str | None, typer.Option("--run", help="By default the folder's name.")] = None,
    named: Annotated[
        list[str] | None, typer.Option("--map", metavar="TAG=METRIC", help="Such as ce=train/loss, for each.")
    ] = None,
    idle_seconds: Annotated[
        float, typer.Option(min=0.0, help="Ends when nothing was written for so long; 0 with what is there.")
    ] = 3600.0,
    poll_seconds: Annotated[float, typer.Option(min=0.1, help="Between two looks.")] = 2.0,
) -> None:
    """Log the scalars of a TensorBoard folder as a run of Holter's, while they are written.

    Example: python -m holter.producers.integrations.follow logs/run-7 --project my-project

    Exit codes: 0 the run ended, or Ctrl-C; 2 wrong usage, no such folder, or no scalar in it.
    """
    if not folder.is_dir():
        raise typer.BadParameter(f"there is no folder {folder}")
    names = TrackedNames(_by_tag(named or []))
    run = _begun(project, run_name or folder.resolve().name)
    followed = Followed(run, names, lambda: time.time_ns() // 1_000_000)
    try:
        _follow(EventFolder(folder), followed, idle_seconds, poll_seconds)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
    except FileNotFoundError as error:
        typer.echo(str(error), err=True)
    finally:
        run.finish("ended")
    typer.echo(f"{followed.num_scalars:,} scalars of {folder} are run {run.name!r} of project {run.project!r}")
    if not followed.num_scalars:
        raise typer.Exit(_UNUSABLE)


def _follow(folder: EventFolder, followed: Followed, idle_seconds: float, poll_seconds: float) -> None:
    last_seen = time.monotonic()
    while True:
        if followed.take(folder.new_scalars()):
            last_seen = time.monotonic()
        if time.monotonic() - last_seen >= idle_seconds:
            return
        time.sleep(poll_seconds)


def _begun(project: str, name: str) -> Run:
    try:
        return producers.init(project, name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _by_tag(named: list[str]) -> dict[str, str]:
    """Raises :class:`typer.BadParameter` where one is not TAG=METRIC."""
    by_tag: dict[str, str] = {}
    for text in named:
        tag, equals, metric = text.rpartition("=")
        if not equals or not tag or not metric:
            raise typer.BadParameter(f"{text!r} is not TAG=METRIC, such as ce=train/loss", param_hint="--map")
        by_tag[tag] = metric
    return by_tag


if __name__ == "__main__":
    typer.run(follow)
