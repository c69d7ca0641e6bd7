"""Closed incidents of a store's own runs.

What became of one is what its last state says. Of an incident that was open when its run ended, or that ended at a
level which no longer moves, that state rests on the probability itself: a fit on many of those confirms what was said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from holter.pipeline.fit.incidents import Features, Gathered

Ask = Callable[[str], Iterable[Sequence[Any]]]
"""Runs a query and returns its rows."""

HEALED = frozenset({"recovered", "recovered_higher"})
LOST = "lost"

SIGNALS_OF_CLOSED_INCIDENTS = """
SELECT
    said.project, said.run, said.incident, closed.state,
    (said.project, said.run, said.incident) IN
        (SELECT project, run, incident FROM actions WHERE status = 'applied') AS is_treated,
    said.features
FROM signals AS said
INNER JOIN incidents AS closed
    ON said.project = closed.project AND said.run = closed.run AND said.incident = closed.incident
WHERE NOT closed.is_open AND said.phase != 'close'
ORDER BY said.project, said.run, said.incident, said.step, said.seq
"""
"""What closes an incident says how it ended: only what came before is a forecast."""


class SaidOfClosed(NamedTuple):
    project: str
    run: str
    incident: str
    state: str
    is_treated: bool
    features: Features


def gather_from_store(ask: Ask, max_records: int) -> Gathered:
    """Every closed incident that was left to itself; one whose end was cut off by an action or a rollback is counted.

    The runs are the groups.
    """
    rows = (SaidOfClosed(*row) for row in ask(SIGNALS_OF_CLOSED_INCIDENTS))
    gathered = Gathered()
    for (project, run, _), said in groupby(rows, key=lambda row: row[:3]):
        _add(gathered, f"{project}/{run}", list(said), max_records)
    return gathered


def _add(gathered: Gathered, group: str, said: list[SaidOfClosed], max_records: int) -> None:
    first = said[0]
    if first.is_treated:
        gathered.left_out["an action was applied"] += 1
    elif first.state not in HEALED and first.state != LOST:
        gathered.left_out[f"it ended as {first.state}"] += 1
    else:
        records = [row.features for row in said]
        gathered.add(group, first.state in HEALED, records, max_records)
