"""One log from file to findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from holter.pipeline.core.decide.written_policy import policy_from_text
from holter.pipeline.core.signals import SignalSettings, SignalStage
from holter.pipeline.replay.columns import STEP, ColumnNames
from holter.pipeline.replay.curves import BandSamples, Curves, curves_of
from holter.pipeline.replay.events import log_name
from holter.pipeline.replay.findings import Finding, findings
from holter.pipeline.replay.judge import Event, Judge
from holter.pipeline.replay.log import Log
from holter.pipeline.replay.reading import read_log

_WATCHED_TIMES = 2_000
"""So often within a log its bands are noted, and the progress is told."""

OnProgress = Callable[[float], None]


@dataclass(frozen=True)
class ReplayOptions:
    """
    Attributes:
        policies: as :func:`policy_from_text` reads them; the first one's choices are what the events tell, the others
            are told beside it.
        names: the user's own column names by role.
        format_name: None to find it.
        with_curves: whether to keep what a report draws.
        settings: of the stages; None for the shipped ones.
    """

    policies: Sequence[str] = ("patient",)
    names: Mapping[str, str] = field(default_factory=dict)
    format_name: str | None = None
    with_curves: bool = False
    settings: SignalSettings | None = None


@dataclass(frozen=True)
class Replayed:
    """What a log was found to hold; without its values, so that it travels between processes."""

    path: Path
    format: str
    num_rows: int
    first_step: int
    last_step: int
    columns: dict[str, str]
    """The log's own names, by Holter's."""
    notes: list[str]
    findings: list[Finding]
    events: Sequence[Event]
    """Of the incidents, and the notices between them."""
    curves: Curves | None

    @property
    def notices(self) -> list[Event]:
        """What there was to say that is no trouble."""
        return [event for event in self.events if event.is_notice]


def replay(path: Path, options: ReplayOptions | None = None, on_progress: OnProgress | None = None) -> Replayed:
    """Reads and judges a log. ``on_progress`` is told the share of it that is done.

    Raises:
        UnreadableLog: there is nothing to replay in it.
    """
    options = options or ReplayOptions()
    log = read_log(path, ColumnNames(options.names), options.format_name)
    bands = BandSamples()
    num_policies = len(options.policies)
    events: dict[str, Sequence[Event]] = {}
    for number, policy in enumerate(options.policies):
        watched = bands if options.with_curves and not number else None
        watch = _Watch(watched, on_progress, number / num_policies, 1.0 / (num_policies * log.num_rows))
        events[policy_from_text(policy).label] = judge_log(log, policy, watch, options.settings)
    first = next(iter(events.values()))
    return Replayed(
        path=path,
        format=log.format,
        num_rows=log.num_rows,
        first_step=log.steps[0],
        last_step=log.steps[-1],
        columns={name: own for name, own in log.sources.items() if name != STEP},
        notes=log.notes,
        findings=findings(events),
        events=first,
        curves=curves_of(log, first, bands) if options.with_curves else None,
    )


class _Watch(NamedTuple):
    """Looks in on a log that is being judged."""

    bands: BandSamples | None
    on_progress: OnProgress | None
    done: float
    share_per_row: float

    def look(self, row: int, stage: SignalStage) -> None:
        if self.bands is not None:
            self.bands.take(row, stage)
        if self.on_progress is not None:
            self.on_progress(self.done + row * self.share_per_row)


def judge_log(log: Log, policy: str, watch: _Watch, settings: SignalSettings | None) -> list[Event]:
    """Everything that there is to say of a log."""
    judge = Judge(policy, settings, run=log_name(log.path))
    every = max(1, log.num_rows // _WATCHED_TIMES)
    events: list[Event] = []
    for row, record in enumerate(log.records()):
        if told := judge.update(record):
            events.extend(told)
        if not row % every:
            watch.look(row, judge.stage)
    return [*events, *judge.finish()]
