"""Events as JSON lines: what a scorer of labelled logs, or a script, reads."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

from holter.pipeline.core.decide.policy import MONITOR
from holter.pipeline.replay.judge import Event

_ACTIONS = {MONITOR: "monitor", "lr_cut": "lr_factor"}
"""Choices that are written by another word: that of their effect."""


def log_name(path: Path) -> str:
    """The name of a log without what only tells its format.

    >>> log_name(Path("runs/a.csv.gz")), log_name(Path("trainer_state.json")), log_name(Path("events.out.tfevents.17"))
    ('a', 'trainer_state', 'events.out.tfevents.17')
    """
    name = path.name.removesuffix(".gz")
    for ending in (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".txt", ".log", ".out"):
        if name.endswith(ending) and name != ending:
            return name.removesuffix(ending)
    return name


def event_line(event: Event) -> str:
    """One object; a probability that is not known is left out.

    >>> event = Event(7, 70, "nan", "open", "diverging", "a1", 0.2, "lr_cut", "unlikely", None)
    >>> event_line(event)  # doctest: +ELLIPSIS
    '{"row": 7, "step": 70, "kind": "nan", ..., "p_recover": 0.2, "action": "lr_factor", "reason": "unlikely"}'
    """
    document: dict[str, object] = {
        "row": event.row,
        "step": event.step,
        "kind": event.kind,
        "phase": event.phase,
        "state": event.state,
        "incident": event.incident,
    }
    if event.p_recover is not None and math.isfinite(event.p_recover):
        document["p_recover"] = event.p_recover
    return json.dumps({**document, "action": _ACTIONS.get(event.action, event.action), "reason": event.reason})


def write_events(path: Path, events: Iterable[Event]) -> None:
    """Writes a file, also where there are no events: the log was judged, and nothing was found."""
    path.write_text("".join(f"{event_line(event)}\n" for event in events), encoding="utf-8")
