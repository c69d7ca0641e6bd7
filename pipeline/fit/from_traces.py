"""Labelled runs judged again, for the features of their incidents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holter.pipeline.core.signals import SignalSettings
from holter.pipeline.fit.errors import BadLabels
from holter.pipeline.fit.incidents import Features, Gathered
from holter.pipeline.fit.labels import LabelledIncident, LabelledRun
from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.judge import judge
from holter.pipeline.replay.reading import read_log

ROWS_BEFORE, ROWS_AFTER = 5, 2
"""A signal so close to a labelled incident belongs to it: labels are drawn by eye."""


def gather_from_traces(runs: Iterable[LabelledRun], max_records: int) -> Gathered:
    """Every labelled incident that the detectors see; the others are counted. The families are the groups.

    Raises:
        BadLabels: a file that the labels name cannot be read.
    """
    gathered = Gathered()
    for run in runs:
        seen = _features_by_row(run)
        for incident in run.incidents:
            records = _records_of(incident, seen)
            if records:
                gathered.add(run.family, incident.healed, records, max_records)
            else:
                gathered.left_out["the detectors did not see it"] += 1
    return gathered


def _features_by_row(run: LabelledRun) -> list[tuple[int, Features]]:
    """The features at every record of every incident that the stages open in a run."""
    try:
        log = read_log(run.path)
    except UnreadableLog as error:
        raise BadLabels(f"{run.path}: {error}") from None
    at_every_record = replace(SignalSettings(), update_every_records=1)
    events = judge(log.records(), settings=at_every_record)
    return [
        (event.row, event.signal.features)
        for event in events
        if event.signal is not None and event.signal.phase != "close" and event.signal.features
    ]


def _records_of(incident: LabelledIncident, seen: list[tuple[int, Features]]) -> list[Features]:
    first, last = incident.first_row - ROWS_BEFORE, incident.last_row + ROWS_AFTER
    return [features for row, features in seen if first <= row <= last]
