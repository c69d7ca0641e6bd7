"""``holter sync``: runs that were kept on this machine, sent to Kafka."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn
from urllib.parse import unquote

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from holter.pipeline.bus import BusError, Publisher
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings, kafka_settings_from_env
from holter.pipeline.local.run_folder import RunFolder, find_run_folders
from holter.pipeline.local.spool import SpoolError
from holter.pipeline.local.sync import SyncInUse, SyncReport, num_bytes_unsent, sync_run
from holter.producers.connection import connection_from_env
from holter.producers.surroundings import DEFAULT_RUNS, RUNS_VARIABLE
from holter.schemas.topics import TopicNames

_CLOSE_SECONDS = 5.0


def sync(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DIR]...", help=f"Runs, or folders with runs. [{RUNS_VARIABLE}, default: {DEFAULT_RUNS}]"
        ),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Kafka; default: the local stack's. [KAFKA_BOOTSTRAP_SERVERS]"),
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="The tenant's prefix. [HOLTER_TOPIC_PREFIX]")] = None,
) -> None:
    """Send the runs that local and offline mode kept, each record once, as not live: judged for the record only.

    Can be cut off and run again, also while a run is still being recorded: how far a run was sent is kept beside it.
    Nothing is deleted. Ends with 0 when everything is sent, with 2 when there is nothing, or Kafka does not answer.

    Example: holter sync holter-runs --bootstrap kafka:9092
    """
    console = Console(stderr=True)
    roots = folders or [Path(os.environ.get(RUNS_VARIABLE) or DEFAULT_RUNS)]
    runs = find_run_folders(roots)
    if not runs:
        _refuse(console, f"no recorded runs in {', '.join(map(str, roots))}: name a folder that HOLTER_MODE=local or "
                         "offline left behind")  # fmt: skip
    waiting = [run for run in runs if num_bytes_unsent(run)]
    if not waiting:
        console.print(f"Nothing to send: {_runs(len(runs))} sent before.", highlight=False)
        return
    settings = _settings(bootstrap, prefix)
    try:
        with _publisher(settings) as publisher:
            sent = _send(waiting, publisher, console)
    except (BusError, OSError) as error:
        _refuse(console, f"{error}. What was sent is remembered: run `holter sync` again")
    num_sent = sum(report.num_sent for report in sent)
    console.print(f"{num_sent:,} records of {_runs(len(sent))} are in {settings.bootstrap}.", highlight=False)
    if len(sent) < len(waiting):
        raise typer.Exit(2)


def _send(runs: list[RunFolder], publisher: Publisher, console: Console) -> list[SyncReport]:
    """What was sent of each run; a run that cannot be read, or is being sent elsewhere, is said and left out."""
    reports: list[SyncReport] = []
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for run in runs:
            task = progress.add_task(_name(run), total=num_bytes_unsent(run))
            try:
                report = sync_run(run, publisher, functools.partial(progress.advance, task))
                reports.append(report)
                said = _said(report)
            except (SpoolError, SyncInUse) as error:
                said = f"left out, {error}"
            console.print(f"{_name(run)}: {said}", markup=False, highlight=False, soft_wrap=True)
    return reports


def _said(report: SyncReport) -> str:
    parts = [f"{report.num_sent:,} records sent"]
    if report.num_unreadable:
        parts.append(f"{report.num_unreadable:,} that cannot be read are left out")
    if report.num_bytes_left:
        parts.append(f"the last {report.num_bytes_left:,} bytes are no whole record, and are left out")
    return "; ".join(parts)


def _name(run: RunFolder) -> str:
    """Project and run, of which its folder and the one above it have their names."""
    return f"{unquote(run.path.parent.name)}/{unquote(run.path.name)}"


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number:,} runs"


def _settings(bootstrap: str | None, prefix: str | None) -> KafkaSettings:
    settings = kafka_settings_from_env(os.environ, bootstrap, prefix)
    if settings is None and (connection := connection_from_env(os.environ)) is not None:
        settings = connection.kafka
    if settings is None:
        raise typer.BadParameter("name a Kafka: --bootstrap HOST:PORT or KAFKA_BOOTSTRAP_SERVERS, or run `holter up`")
    try:
        TopicNames(settings.prefix)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return settings


@contextmanager
def _publisher(settings: KafkaSettings) -> Iterator[Publisher]:
    publisher = KafkaBus(settings).publisher("holter-sync")
    try:
        yield publisher
    finally:
        publisher.close(_CLOSE_SECONDS)


def _refuse(console: Console, text: str) -> NoReturn:
    console.print(f"[red]error[/] {text}", highlight=False, soft_wrap=True)
    raise typer.Exit(2)
