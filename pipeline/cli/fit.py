"""``holter fit``: P(recover) fitted anew to closed incidents or labelled runs; the learned detector to the latter."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track

from holter.pipeline.cli.fit_report import left_out_line, print_learned, print_priors, print_refit
from holter.pipeline.cli.sql import default_dsn, explain
from holter.pipeline.core.recovery import RecoveryWeights
from holter.pipeline.fit.errors import FitError
from holter.pipeline.fit.from_store import Ask, gather_from_store
from holter.pipeline.fit.from_traces import gather_from_traces, lessons_from_traces
from holter.pipeline.fit.incidents import Gathered
from holter.pipeline.fit.labels import read_labels, read_runs
from holter.pipeline.fit.learned import fit_learned
from holter.pipeline.fit.learned_file import write_model
from holter.pipeline.fit.priors import gather_priors, write_priors
from holter.pipeline.fit.refit import FitSettings, refit
from holter.pipeline.fit.weights_file import write_weights
from holter.pipeline.store.client import connect, store_errors
from holter.pipeline.store.dsn import DSN_VARIABLE, Dsn, parse_dsn
from holter.pipeline.store.errors import StoreError

_READ_ONLY = {"readonly": 2}


def fit(
    traces: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="A folder of logs with labels.csv, instead of the store; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the coefficients here, for `holter replay --weights`.")
    ] = None,
    detector: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --traces: fit the learned detector instead, for `replay --learned`."),
    ] = None,
    priors: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what helped before, by kind of incident and effect.")
    ] = None,
    records: Annotated[
        int, typer.Option(min=1, help="How many records from its onset on an incident counts with.")
    ] = 60,
    ridge: Annotated[
        float, typer.Option(min=0.001, help="How strongly coefficients are held at the shipped ones.")
    ] = FitSettings.ridge,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    dsn: Annotated[
        str | None, typer.Option(envvar=DSN_VARIABLE, help="The store; by default the one that `holter up` started.")
    ] = None,
) -> None:
    """Fit the probability that an incident heals by itself to what has happened.

    From the store come all closed incidents that healed or were lost by
    themselves; what an action or a rollback cut short says neither. With
    --traces the runs of a folder are judged again, and its labels say what
    became of them. Fewer than 20 incidents, or 5 of one outcome, are refused.

    Brier scores are given for the fit, for groups of runs that it did not
    see, and for the base rate.

    With --detector the detector of `holter replay --learned` is fitted, to all
    rows of the runs; --records and --ridge do not concern it.

    Example: holter fit --out weights.json --priors helped.json
    """
    try:
        if traces and priors:
            raise FitError("--priors come from a store's own actions: leave --traces out")
        if detector is not None:
            if out or priors:
                raise FitError("--detector fits the learned detector alone: leave --out and --priors out")
            _fit_detector(traces or [], detector, as_json)
            return
        ask = None if traces else asker(_dsn(dsn))
        if ask is not None and priors:
            _export_priors(ask, priors, as_json)
        gathered = gather_from_store(ask, records) if ask is not None else _from_folders(traces or [], records)
        _refit(gathered, FitSettings(ridge=ridge), out, as_json)
    except StoreError as error:
        _refuse(explain(error))
    except FitError as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(f"{error.filename}: {error.strerror}")


def _refit(gathered: Gathered, settings: FitSettings, out: Path | None, as_json: bool) -> None:
    note = left_out_line(gathered)
    if note and not as_json:
        typer.echo(note, err=True)
    shipped = RecoveryWeights()
    fitted = refit(gathered.incidents, shipped, settings)
    if out is not None:
        write_weights(out, fitted)
    if as_json:
        typer.echo(json.dumps({**asdict(fitted), "left_out": dict(gathered.left_out)}))
    else:
        print_refit(Console(), fitted, shipped)


def _fit_detector(folders: Sequence[Path], path: Path, as_json: bool) -> None:
    runs = [run for folder in folders for run in read_runs(folder)]
    if not runs:
        raise FitError("--detector is fitted to labelled runs: name folders with --traces DIR")
    rows = track(lessons_from_traces(runs), "judging", total=len(runs), console=Console(stderr=True), transient=True)
    fitted = fit_learned(list(rows))
    write_model(path, fitted.model)
    if as_json:
        typer.echo(json.dumps(asdict(fitted)))
    else:
        print_learned(Console(), fitted)


def _export_priors(ask: Ask, path: Path, as_json: bool) -> None:
    priors = gather_priors(ask)
    write_priors(path, priors)
    if not as_json:
        print_priors(Console(), priors)


def _from_folders(folders: Sequence[Path], max_records: int) -> Gathered:
    return gather_from_traces([run for folder in folders for run in read_labels(folder)], max_records)


def asker(dsn: Dsn) -> Ask:
    client = connect(dsn)

    def ask(query: str) -> Sequence[Sequence[Any]]:
        with store_errors(dsn):
            rows: Sequence[Sequence[Any]] = client.query(query, settings=_READ_ONLY).result_rows
            return rows

    return ask


def _dsn(given: str | None) -> Dsn:
    text = given or default_dsn(os.environ)
    if not text:
        raise StoreError(f"no store is known here: run `holter up`, give --dsn, set {DSN_VARIABLE}, or name --traces")
    return parse_dsn(text)


def _refuse(reason: str) -> None:
    typer.echo(f"holter fit: {reason}", err=True)
    raise typer.Exit(2)
