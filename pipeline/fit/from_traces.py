"""Labelled runs judged again, for the features of their incidents or of all their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from holter.pipeline.core.signals import SignalSettings
from holter.pipeline.fit.errors import BadLabels
from holter.pipeline.fit.incidents import Features, Gathered
from holter.pipeline.fit.labels import LabelledIncident, LabelledRun
from holter.pipeline.fit.learned import Lesson, features_of
from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.judge import judge
from holter.pipeline.replay.log import Log
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


def lessons_from_traces(runs: Iterable[LabelledRun]) -> Iterator[Lesson]:
    """What the learned detector is fitted to: every run, those in which nothing happened too.

    Raises:
        BadLabels: a file that the labels or the index name cannot be read.
    """
    for run in runs:
        spans = [(incident.first_row, incident.last_row) for incident in run.incidents]
        yield Lesson(run.family, features_of(_log(run).records()), spans, run.doubtful)


def _log(run: LabelledRun) -> Log:
    try:
        return read_log(run.path)
    except UnreadableLog as error:
        raise BadLabels(f"{run.path}: {error}") from None


def _features_by_row(run: LabelledRun) -> list[tuple[int, Features]]:
    """The features at every record of every incident that the stages open in a run."""
    at_every_record = replace(SignalSettings(), update_every_records=1)
    events = judge(_log(run).records(), settings=at_every_record)
    return [
        (event.row, event.signal.features)
        for event in events
        if event.signal is not None and event.signal.phase != "close" and event.signal.features
    ]


def _records_of(incident: LabelledIncident, seen: list[tuple[int, Features]]) -> list[Features]:
    first, last = incident.first_row - ROWS_BEFORE, incident.last_row + ROWS_AFTER
    return [features for row, features in seen if first <= row <= last]
