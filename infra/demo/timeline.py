"""What happened to the treated run, in order, with how long it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.table import Table

from holter.infra.demo.arms import ArmResult
from holter.infra.demo.follow import Heard
from holter.schemas.control import Action, effect_name
from holter.schemas.decisions import Decision, Outcome
from holter.schemas.signals import Signal
from holter.schemas.telemetry import Ack


class Entry(NamedTuple):
    what: str
    step: int
    ms: int
    detail: str


def entries(result: ArmResult, heard: Sequence[Heard]) -> list[Entry]:
    """Fault, signals, decisions, actions and their acknowledgements, outcomes; times are those of the trainer."""
    found = [entry for item in heard for entry in _entry(item)]
    if result.fault_step is not None and result.fault_ms is not None:
        found.append(Entry("fault", result.fault_step, result.fault_ms, "injected"))
    return sorted(found, key=lambda entry: entry.ms)


def _entry(heard: Heard) -> Iterator[Entry]:
    record = heard.record
    if isinstance(record, Signal) and record.phase != "update":
        what = "signal" if record.phase == "open" else record.state.replace("_", " ")
        yield Entry(what, record.step, record.ts, f"{record.explanation}, known {heard.latency_ms} ms later")
    elif isinstance(record, Decision):
        held = f" (not issued: {record.held})" if record.held else ""
        yield Entry(f"decision: {record.choice}", record.step, record.ts, record.reason + held)
    elif isinstance(record, Action):
        effects = " + ".join(effect_name(effect) for effect in record.effects)
        detail = f"{effects}, signed, on the control topic {heard.latency_ms} ms after its step"
        yield Entry("action", record.first_step, heard.heard_ms, detail)
    elif isinstance(record, Ack):
        changes = ", ".join(f"{report.effect} {_change(report.before, report.after)}" for report in record.effects)
        yield Entry(record.status, record.step, record.ts, changes or record.reason)
    elif isinstance(record, Outcome):
        levels = f"loss {record.level_before:.2f} → {record.level_after:.2f}, {record.lost_steps} steps lost"
        yield Entry(f"outcome: {record.result}", record.step, record.ts, levels)


def _change(before: float | None, after: float | None) -> str:
    return "" if before is None or after is None else f"{before:g} → {after:g}"


def table(entries: Sequence[Entry]) -> Table:
    shown = Table(title="The treated run", title_justify="left")
    for name, justify in (("after fault", "right"), ("step", "right"), ("what", "left"), ("", "left")):
        shown.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    start = next((entry.ms for entry in entries if entry.what == "fault"), entries[0].ms if entries else 0)
    for entry in entries:
        shown.add_row(f"{(entry.ms - start) / 1000:+.2f} s", str(entry.step), entry.what, entry.detail)
    return shown
