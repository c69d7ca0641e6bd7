"""Every record that is not a metric batch as rows of the store's tables."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from holter.schemas.commands import Act, Approve, Hold, Policy, Reject, Release
from holter.schemas.control import Action, Health, effect_name
from holter.schemas.dead_letter import DeadLetter
from holter.schemas.decisions import Decision, Outcome
from holter.schemas.signals import Signal
from holter.schemas.telemetry import Ack, Evaluated, Finished, RunEvent, Started
from holter.schemas.windows import WindowStat

Row = dict[str, Any]
TableRow = tuple[str, Row]
_RECORD_FIELDS = frozenset({"v"})


def rows_of(record: msgspec.Struct, key_id: str = "") -> Iterable[TableRow]:
    """The rows of one record, each with its table; ``key_id`` names who signed it.

    Raises:
        TypeError: no table keeps this kind of record.
    """
    if type(record) in _BUILDERS:
        return _BUILDERS[type(record)](record)
    if type(record) in _SIGNED_BUILDERS:
        return _SIGNED_BUILDERS[type(record)](record, key_id)
    raise TypeError(f"no table keeps {type(record).__name__}")


def attempt_row(project: str, run: str, attempt: int, ts: int) -> Row:
    """An attempt that something was heard of; the row of its start event, if that comes, takes its place."""
    return {
        "project": project, "run": run, "attempt": attempt, "parent_attempt": None, "parent_step": None, "ts": ts,
        "host": "", "num_ranks": 0, "config": "{}", "versions": "{}", "allow": [], "is_started": 0,
    }  # fmt: skip


def _event(record: RunEvent) -> Iterable[TableRow]:
    event = record.event
    body = msgspec.to_builtins(event)
    yield (
        "raw_events",
        {
            **_cause(record),
            "session": record.session,
            "event": body["event"],
            "status": event.status if isinstance(event, Finished) else "",
            "checkpoint": getattr(event, "checkpoint", ""),
            "body": _json(body),
            "live": record.live,
        },
    )
    if isinstance(event, Started) and record.rank <= 0:
        yield "raw_attempts", _start(record, event)
    if isinstance(event, Evaluated):
        for metric, value in event.metrics.items():
            yield "raw_metrics", {**_cause(record), "metric": metric, "split": "eval", "value": value}


def _start(record: RunEvent, event: Started) -> Row:
    return {
        **attempt_row(record.project, record.run, record.attempt, record.ts),
        "parent_attempt": event.parent.attempt if event.parent else None,
        "parent_step": event.parent.step if event.parent else None,
        "host": event.host,
        "num_ranks": event.num_ranks,
        "config": _json(event.config),
        "versions": _json(event.versions),
        "allow": event.allow,
        "is_started": 1,
    }


def _ack(record: Ack) -> Iterable[TableRow]:
    row = _fields(record)
    row["effects"] = [report.effect for report in record.effects]
    row["before"] = [report.before for report in record.effects]
    row["after"] = [report.after for report in record.effects]
    row["details"] = [report.detail for report in record.effects]
    yield "raw_acks", row


def _window(record: WindowStat) -> Iterable[TableRow]:
    yield "raw_windows", _fields(record)


def _signal(record: Signal) -> Iterable[TableRow]:
    row = _fields(record)
    row["moved"] = list(record.moved.items())
    row["features"] = list(record.features.items())
    yield "raw_signals", row


def _decision(record: Decision) -> Iterable[TableRow]:
    row = _fields(record)
    row["option_names"] = [option.name for option in record.options]
    row["option_costs"] = [option.cost_seconds for option in record.options]
    row["options"] = _json(record.options)
    yield "raw_decisions", row


def _outcome(record: Outcome) -> Iterable[TableRow]:
    yield "raw_outcomes", _fields(record)


def _dead_letter(record: DeadLetter) -> Iterable[TableRow]:
    yield "raw_dead_letters", _fields(record)


def _action(record: Action, key_id: str) -> Iterable[TableRow]:
    row = _fields(record)
    row["effect_names"] = [effect_name(effect) for effect in record.effects]
    row["effects"] = _json(record.effects)
    row["key_id"] = key_id
    yield "raw_actions", row


def _health(record: Health, key_id: str) -> Iterable[TableRow]:
    yield "raw_health", {**_fields(record), "key_id": key_id}


def _command(record: Any, key_id: str) -> Iterable[TableRow]:
    body = msgspec.to_builtins(record)
    yield (
        "raw_commands",
        {
            "project": record.project,
            "run": record.run,
            "id": hashlib.blake2b(msgspec.msgpack.encode(record), digest_size=16).hexdigest(),
            "command": body["record"],
            "person": record.person,
            "ts": record.ts,
            "reason": record.reason,
            "body": _json(body),
            "key_id": key_id,
        },
    )


def _cause(record: Any) -> Row:
    return {
        "project": record.project, "run": record.run, "attempt": record.attempt, "rank": record.rank,
        "step": record.step, "seq": record.seq, "ts": record.ts,
    }  # fmt: skip


def _fields(record: msgspec.Struct) -> Row:
    return {name: getattr(record, name) for name in record.__struct_fields__ if name not in _RECORD_FIELDS}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_BUILDERS: dict[type, Callable[[Any], Iterable[TableRow]]] = {
    RunEvent: _event,
    Ack: _ack,
    WindowStat: _window,
    Signal: _signal,
    Decision: _decision,
    Outcome: _outcome,
    DeadLetter: _dead_letter,
}
_SIGNED_BUILDERS: dict[type, Callable[[Any, str], Iterable[TableRow]]] = {
    Action: _action,
    Health: _health,
    **dict.fromkeys((Approve, Reject, Act, Policy, Hold, Release), _command),
}
