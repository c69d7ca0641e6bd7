"""``holter bad-batches``: the data that a run is not to meet again."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from holter.producers.bad_batches import BadBatches, NoBadBatches, read_bad_batches, runs_below

_IDS_SHOWN = 3


def bad_batches(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its name, with or without PROJECT/.", show_default=False)],
    checkpoints: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder that the trainer was given as checkpoints.")
    ] = Path("checkpoints"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, with every sample id.")] = False,
) -> None:
    """Show the data that did harm: which batches, samples and tokens a run leaves out whenever it replays them.

    Read from the ledger beside the checkpoints, which is what the trainer itself goes by; no service is needed.
    Ends with 0 also where there are none, with 2 where there is no such run.

    Example: holter bad-batches night --checkpoints checkpoints/
    """
    name = run.rpartition("/")[2]
    try:
        by_rank = read_bad_batches(checkpoints, name)
    except NoBadBatches as error:
        known = ", ".join(runs_below(checkpoints)) or "none"
        Console(stderr=True).print(f"[red]{error}.[/] Runs there: {known}; --checkpoints names another folder.")
        raise typer.Exit(2) from None
    if as_json:
        rows = [{"rank": rank, **msgspec.to_builtins(bad)} for rank, ranges in by_rank.items() for bad in ranges]
        print(msgspec.json.encode({"run": name, "bad_batches": rows}).decode())
        return
    _show(Console(), name, by_rank)


def _show(console: Console, run: str, by_rank: dict[int, list[BadBatches]]) -> None:
    if not any(by_rank.values()):
        console.print(f"{run}: no data was found to do harm.", highlight=False)
        return
    table = Table(title=f"Data that {run} leaves out", title_justify="left")
    for column in ("rank", "batches", "samples", "tokens", "steps", "since (UTC)", "why"):
        table.add_column(column, justify="left" if column == "why" else "right", no_wrap=column != "why")
    for rank, ranges in by_rank.items():
        for bad in ranges:
            table.add_row(str(rank), *_cells(bad))
    console.print(table)


def _cells(bad: BadBatches) -> tuple[str, ...]:
    when = datetime.fromtimestamp(bad.ts / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M") if bad.ts else ""
    return (
        _range(bad.first, bad.last),
        _range(bad.first_sample, bad.last_sample),
        _range(bad.first_token, bad.last_token),
        _range(bad.first_step, bad.last_step),
        when,
        "\n".join(part for part in (bad.reason, _ids(bad.sample_ids)) if part),
    )


def _range(first: Any, last: Any) -> str:
    """
    >>> _range(7, 12000), _range(3, 3), _range(None, None)
    ('7 to 12,000', '3', '')
    """
    if first is None or last is None:
        return ""
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _ids(ids: list[str | int]) -> str:
    """
    >>> _ids([4, "b", 6, 7, 8])
    'ids 4, b, 6 and 2 more'
    """
    shown = ", ".join(str(each) for each in ids[:_IDS_SHOWN])
    more = f" and {len(ids) - _IDS_SHOWN} more" if len(ids) > _IDS_SHOWN else ""
    return f"ids {shown}{more}" if ids else ""
