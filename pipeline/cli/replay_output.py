"""What ``holter replay`` prints and writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holter.pipeline.cli.sql import plain
from holter.pipeline.replay.events import log_name, write_events
from holter.pipeline.replay.findings import Finding
from holter.pipeline.replay.replay import Replayed
from holter.pipeline.replay.several import Unusable
from holter.pipeline.replay.wording import advice_text, chance_text, counted, headline, notice_texts, steps_text

_COLORS = {"recovered": "green", "lost": "red"}


def document(usable: Sequence[Replayed], unusable: Sequence[Unusable]) -> dict[str, Any]:
    """What ``--json`` prints; what is not finite is a string, as in ``holter sql``."""
    return {
        "files": [_file_document(log) for log in usable],
        "unusable": [{"file": str(result.path), "reason": result.reason} for result in unusable],
    }


def print_tables(console: Console, usable: Sequence[Replayed]) -> None:
    """A line for each log, under it its incidents; a sum at the end."""
    for log in usable:
        verdict = "" if log.findings else " – [green]nothing out of the ordinary[/]"
        console.print(f"[bold]{escape(str(log.path))}[/]  [dim]{escape(headline(log))}[/]{verdict}", highlight=False)
        for note in log.notes:
            console.print(f"  [yellow]{escape(note)}[/]", highlight=False)
        if log.findings:
            console.print(incident_table(log.findings), highlight=False)
        for line in notice_texts(log):
            console.print(f"  [dim]{escape(line)}[/]", highlight=False)
        if log.findings:
            console.print()
    if len(usable) > 1:
        num_incidents = sum(len(log.findings) for log in usable)
        num_hurt = sum(bool(log.findings) for log in usable)
        told = f"{counted(num_incidents, 'incident')} in {num_hurt:,} of {counted(len(usable), 'log')}"
        console.print(told, highlight=False)


def incident_table(found: Sequence[Finding]) -> Table:
    policies = [advice.policy for advice in found[0].advice]
    with_policy = len(policies) > 1
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("steps", no_wrap=True)
    table.add_column("what was seen", overflow="fold", ratio=1)
    table.add_column("state, P(recover)", no_wrap=True)
    table.add_column("policies" if with_policy else f"policy {policies[0]}", overflow="fold", ratio=1)
    for finding in found:
        seen = f"[bold]{', '.join(finding.kinds)}[/]: {escape(finding.seen)}"
        state = f"[{_COLORS.get(finding.state, 'yellow')}]{finding.state}[/]\n{chance_text(finding)}"
        advice = "\n".join(advice_text(one, with_policy) for one in finding.advice)
        table.add_row(steps_text(finding), seen, state, escape(advice))
    return table


def write_all_events(folder: Path, usable: Iterable[Replayed]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for log in usable:
        write_events(folder / f"{log_name(log.path)}.jsonl", log.events)


def write_report(path: Path, usable: Sequence[Replayed], unusable: Sequence[Unusable]) -> None:
    from holter.pipeline.replay.report import report_page  # plotly takes half a second to import

    left_out = [(str(result.path), result.reason) for result in unusable]
    path.write_text(report_page(usable, left_out), encoding="utf-8")


def _file_document(log: Replayed) -> dict[str, Any]:
    return {
        "file": str(log.path),
        "format": log.format,
        "num_rows": log.num_rows,
        "first_step": log.first_step,
        "last_step": log.last_step,
        "columns": log.columns,
        "notes": log.notes,
        "incidents": [plain(asdict(finding)) for finding in log.findings],
        "notices": [
            {"row": event.row, "step": event.step, "kind": event.kind, "what": event.reason} for event in log.notices
        ],
    }
