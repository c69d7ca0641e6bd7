"""``holter diagnose``: which node, which lines, since which iteration, from the logs of a failed job."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from holter.pipeline.cli.diagnose_output import as_document, print_diagnosis
from holter.pipeline.diagnose.comparable import Job, job
from holter.pipeline.diagnose.diagnosis import Options
from holter.pipeline.diagnose.diagnosis import diagnose as diagnose_job
from holter.pipeline.diagnose.errors import BadPatterns, MissingLibrary, UnusableLogs
from holter.pipeline.diagnose.log_folder import node_logs
from holter.pipeline.diagnose.log_lines import OnBytes
from holter.pipeline.diagnose.patterns import Pattern, shipped_patterns, with_file

UNUSABLE = 2


def known_expression(text: str | None) -> str | None:
    """Refuses what is no regular expression with a group."""
    try:
        groups = re.compile(text or "()").groups
    except re.error as error:
        raise typer.BadParameter(f"{text!r} is no regular expression: {error}") from None
    if not groups:
        raise typer.BadParameter(f"{text!r} has no group for the number, as in 'step (\\d+)'")
    return text


def diagnose(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the failed job's logs.", show_default=False)],
    good: Annotated[
        list[str] | None,
        typer.Option("--good", metavar="FOLDER", help="Of a comparable job that succeeded; may be given again."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--of", metavar="MODEL/FRAMEWORK", help="Of the failed job: then --good MODEL/FRAMEWORK=FOLDER is checked."
        ),
    ] = None,
    iteration: Annotated[
        str | None,
        typer.Option(metavar="REGEX", callback=known_expression, help="Its last group is an iteration's number."),
    ] = None,
    patterns: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Signatures of your own, in TOML; they come first.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Nodes to show.")] = 5,
    lines: Annotated[int, typer.Option(min=1, help="Lines to show.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Say from the logs of a failed job's nodes which node it was, by which lines, and since which iteration.

    The method is L4 (2503.20263): what comparable jobs that succeeded said as
    well is left out; nodes are ranked by how unlike the others they are; an
    iteration is told that is unlike those before; known signatures say what to do.

    Each file or folder directly in FOLDER is a node: node-07.log, node-07.log.1.gz,
    node-08/rank3.log; gzipped or not. A comparable job has the same model, the same
    framework and about as many nodes (up to the same power of two): choose such
    ones, or let --of choose among those given. Nothing is sent, and nothing is kept.

    Exit codes: 0 diagnosed, whatever was found; 2 wrong usage, or no logs.

    Example: holter diagnose logs/0412 --good logs/0409 --good logs/0410 --top 5
    """
    failed, others = Job(folder, (kind or "").lower()), [job(text) for text in good or ()]
    try:
        options = Options(re.compile(iteration) if iteration else None, _patterns(patterns))
        with _progress(failed, others) as on_bytes:
            found = diagnose_job(failed, others, options, on_bytes)
    except BadPatterns as error:
        raise typer.BadParameter(str(error), param_hint="--patterns") from None
    except (UnusableLogs, MissingLibrary) as error:
        typer.echo(f"holter diagnose: {error}", err=True)
        raise typer.Exit(UNUSABLE) from None
    if as_json:
        typer.echo(json.dumps(as_document(found), ensure_ascii=False))
    else:
        print_diagnosis(Console(), found, top, lines)


def _patterns(path: Path | None) -> Sequence[Pattern]:
    shipped = shipped_patterns()
    return with_file(path, shipped) if path else shipped


@contextmanager
def _progress(failed: Job, good: Sequence[Job]) -> Iterator[OnBytes]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        logs = [log for each in (failed, *good) for log in node_logs(each.folder)]
        task = progress.add_task("logs", total=sum(log.num_bytes for log in logs))
        yield lambda more: progress.advance(task, more)
