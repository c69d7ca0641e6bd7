"""``holter replay``: what Holter would have said of a run, from the log that it left behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from holter.pipeline.cli.policy_file import POLICY_HELP, POLICY_METAVAR, known_policy
from holter.pipeline.cli.replay_output import document, print_tables, write_all_events, write_report
from holter.pipeline.cli.weights import known_model, known_weights
from holter.pipeline.core.detect.stack import DetectorSettings
from holter.pipeline.core.incidents import IncidentSettings
from holter.pipeline.core.signals import SignalSettings
from holter.pipeline.replay.columns import ROLES
from holter.pipeline.replay.detection import FORMATS
from holter.pipeline.replay.events import log_name
from holter.pipeline.replay.replay import Replayed, ReplayOptions
from holter.pipeline.replay.several import Advance, Unusable, replay_all
from holter.pipeline.replay.wording import counted

UNUSABLE = 2


def known_format(name: str | None) -> str | None:
    """Refuses a format that does not exist."""
    if name is not None and name not in FORMATS:
        raise typer.BadParameter(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
    return name


def known_policies(policies: list[str] | None) -> list[str]:
    """Refuses a policy that does not exist."""
    return list(dict.fromkeys(known_policy(policy) or "" for policy in policies or ("patient",)))


def known_roles(given: list[str] | None) -> list[str]:
    """Refuses what is no name of a column for a role."""
    column_names(given or ())
    return given or []


def column_names(given: Iterable[str]) -> dict[str, str]:
    """``["loss=my_loss,step=it"]`` as names by role.

    Raises:
        typer.BadParameter: a part is not ROLE=NAME, or there is no such role.
    """
    names: dict[str, str] = {}
    for part in (part for text in given for part in text.split(",")):
        role, equals, name = (text.strip() for text in part.partition("="))
        if not equals or not name:
            raise typer.BadParameter(f"{part!r} is not ROLE=NAME, such as loss=my_loss")
        if role not in ROLES:
            raise typer.BadParameter(f"a column is no {role!r}; it may be {', '.join(ROLES)}")
        names[role] = name
    return names


FormatOption = Annotated[
    str | None,
    typer.Option("--format", callback=known_format, help=f"Where it is not found: {', '.join(FORMATS)}."),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="ROLE=NAME,…", callback=known_roles, help=f"Your names of columns; roles: {', '.join(ROLES)}."
    ),
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar=POLICY_METAVAR,
        callback=known_policies,
        help=f"{POLICY_HELP} (patient by default); given again, a second one is told beside the first.",
    ),
]
ReportOption = Annotated[
    Path | None, typer.Option(metavar="OUT.html", help="Draw curves, bands and incidents on a page.")
]
WeightsOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Coefficients of P(recover), as `holter fit --out` writes them.")
]
LearnedOption = Annotated[
    str | None,
    typer.Option(
        metavar="shipped|FILE", help="Also ask the learned detector; a FILE is one that `holter fit --detector` wrote."
    ),
]
EventsOption = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Write every event to NAME.jsonl in a folder.")
]


def replay(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Logs, also gzipped.", show_default=False)],
    format_name: FormatOption = None,
    mapped: MapOption = None,
    policies: PolicyOption = None,
    report: ReportOption = None,
    events: EventsOption = None,
    weights: WeightsOption = None,
    learned: LearnedOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    num_jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes that share the files.")] = 1,
) -> None:
    """Run the stages of a live run over logs: what went wrong, whether it would heal, what to do.

    Example: holter replay train.log other.csv.gz --report out.html

    Reads CSV, JSON lines, trainer_state.json of the Hugging Face Trainer, wandb
    history exports, TensorBoard event files, and the text logs of llm.c, nanoGPT,
    Megatron-LM, DeepSpeed, MLPerf and scripts that print `step 10 loss 3.2`.

    Told is what the policy would have done: nothing was. A log names no
    checkpoints: one is presumed 50 steps before each incident.

    Exit codes: 0 every file was judged, whatever was found; 2 wrong usage, or a
    file could not be used (the others are judged and told all the same).
    """
    _check_targets(files, events, report)
    options = ReplayOptions(
        known_policies(policies),
        column_names(mapped or ()),
        format_name,
        report is not None,
        _settings(weights, learned),
    )
    with _progress(Console(stderr=True), len(files)) as advance:
        results = replay_all(files, options, num_jobs, advance)
    usable = [result for result in results if isinstance(result, Replayed)]
    unusable = [result for result in results if isinstance(result, Unusable)]
    _write_files(events, report, usable, unusable)
    if as_json:
        json.dump(document(usable, unusable), sys.stdout, allow_nan=False, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        print_tables(Console(), usable)
    for result in unusable:
        typer.echo(f"holter replay: {result.path}: {result.reason}", err=True)
    if unusable:
        raise typer.Exit(UNUSABLE)


def _settings(weights: Path | None, learned: str | None) -> SignalSettings | None:
    """Of the stages; None for the shipped ones."""
    if weights is None and learned is None:
        return None
    return SignalSettings(
        DetectorSettings(learned=known_model(learned)),
        IncidentSettings(weights=known_weights(weights, "--weights")),
    )


def _check_targets(files: Sequence[Path], events: Path | None, report: Path | None) -> None:
    """Finds out before the work what cannot be written after it."""
    if report is not None and not report.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {report.parent}", param_hint="--report")
    if events is None:
        return
    if events.exists() and not events.is_dir():
        raise typer.BadParameter(f"{events} is no folder", param_hint="--events")
    by_name: dict[str, Path] = {}
    for path in files:
        other = by_name.setdefault(log_name(path), path)
        if other is not path:
            raise typer.BadParameter(f"{other} and {path} would both be {log_name(path)}.jsonl", param_hint="--events")


def _write_files(
    events: Path | None, report: Path | None, usable: Sequence[Replayed], unusable: Sequence[Unusable]
) -> None:
    try:
        if events is not None:
            write_all_events(events, usable)
        if report is not None:
            write_report(report, usable, unusable)
    except OSError as error:
        typer.echo(f"holter replay: {error.filename}: {error.strerror}", err=True)
        raise typer.Exit(UNUSABLE) from None


@contextmanager
def _progress(console: Console, num_files: int) -> Iterator[Advance]:
    """Shows on a terminal how far the files are; elsewhere nothing."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"replaying {counted(num_files, 'log')}", total=num_files)
        yield lambda share: progress.advance(task, share)
