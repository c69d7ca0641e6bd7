"""The stages of a live run over the records of a finished one.

A log says what happened without Holter, so a choice that the policy makes is told but never applied: what follows it
is what the run did by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from holter.pipeline.core.decide.checkpoints import Checkpoint
from holter.pipeline.core.decide.non_finite import may_be_in_weights
from holter.pipeline.core.decide.policy import MONITOR, Choice, Situation, policy_named
from holter.pipeline.core.decide.settings import CostSettings, PolicySettings, adjusted
from holter.pipeline.core.decide.written_policy import DEFAULT_PRESET, policy_from_text
from holter.pipeline.core.incidents import Incident
from holter.pipeline.core.signals import SignalSettings, SignalStage
from holter.pipeline.core.steps import StepRecord
from holter.schemas.signals import Signal

_NOTICE = "info_"
CHECKPOINT_AGE_STEPS = 50
"""A log names no checkpoints. One is presumed so many steps before the onset: the trainer saves one that often."""


class Event(NamedTuple):
    """What there was to say at one record.

    Attributes:
        row: 0-based index of the record.
        kind: of the signal; where that belongs to no incident, with ``info_`` before it.
        phase: of the incident: open, update or close.
        p_recover: as estimated at this record, None where no estimate was made.
        action: the policy's choice where it is made anew at this record, else ``monitor``: a choice is acted on once.
        reason: why the policy chose that.
        signal: None where only the choice changed.
    """

    row: int
    step: int
    kind: str
    phase: str
    state: str
    incident: str
    p_recover: float | None
    action: str
    reason: str
    signal: Signal | None

    @property
    def is_notice(self) -> bool:
        """Whether it belongs to no incident: a new level, a standstill."""
        return self.kind.startswith(_NOTICE)


class Adviser:
    """Says what a policy would choose for the open incident, and whether that is new."""

    def __init__(self, policy: str) -> None:
        written = policy_from_text(policy)
        self._costs = adjusted(PolicySettings(), written.settings).cost
        self._policy = policy_named(written.preset or DEFAULT_PRESET, self._costs)
        self._told = ("", MONITOR)

    def advise(self, record: StepRecord, stage: SignalStage, incident: Incident) -> tuple[Choice, bool]:
        """The choice, and whether it differs from the last one made for this incident (at first: from waiting)."""
        choice = self._policy(situation_of(record, stage, incident, self._costs))
        before = self._told[1] if self._told[0] == incident.id else MONITOR
        self._told = (incident.id, choice.name)
        return choice, choice.name != before


class Judge:
    """Takes the records of one log in its order; their steps may repeat or go back.

    Raises:
        ValueError: there is no such policy.
    """

    def __init__(
        self,
        policy: str = "patient",
        settings: SignalSettings | None = None,
        project: str = "replay",
        run: str = "log",
    ) -> None:
        self.stage = SignalStage(project, run, settings)
        self._adviser = Adviser(policy)
        self._row = -1

    def update(self, record: StepRecord) -> Sequence[Event]:
        """Takes the next record; returns what there is to say of it."""
        self._row += 1
        stage = self.stage
        signals = stage.update(record, record.ts)
        incident = stage.incident
        if incident is not None:
            return self._at_open(record, signals, incident)
        return [self._ended(signal) for signal in signals] if signals else ()

    def finish(self) -> Sequence[Event]:
        """The log ends: so does an open incident, as what it looks like."""
        return [self._told(signal, MONITOR, "the log ends here") for signal in self.stage.finish()]

    def _at_open(self, record: StepRecord, signals: list[Signal], incident: Incident) -> list[Event]:
        choice, is_new = self._adviser.advise(record, self.stage, incident)
        action = choice.name if is_new else MONITOR
        events = [self._told(signal, action, choice.reason) for signal in signals if signal.incident == incident.id]
        if is_new and not events:
            events = [self._chosen(record, incident, choice)]
        ended = [signal for signal in signals if signal.incident != incident.id]
        return [self._ended(signal) for signal in ended] + events

    def _ended(self, signal: Signal) -> Event:
        return self._told(signal, MONITOR, signal.explanation if signal.is_notice else f"it ended as {signal.state}")

    def _told(self, signal: Signal, action: str, reason: str) -> Event:
        return Event(
            row=self._row,
            step=signal.step,
            kind=f"{_NOTICE}{signal.kind}" if signal.is_notice else signal.kind,
            phase=signal.phase,
            state=signal.state,
            incident=signal.incident,
            p_recover=signal.p_recover,
            action=action,
            reason=reason,
            signal=signal,
        )

    def _chosen(self, record: StepRecord, incident: Incident, choice: Choice) -> Event:
        return Event(
            row=self._row,
            step=record.step,
            kind=incident.kind,
            phase="update",
            state=incident.state,
            incident=incident.id,
            p_recover=incident.p_recover,
            action=choice.name,
            reason=choice.reason,
            signal=None,
        )


def judge(
    records: Iterable[StepRecord],
    policy: str = "patient",
    settings: SignalSettings | None = None,
    *,
    project: str = "replay",
    run: str = "log",
) -> Iterator[Event]:
    """Everything that :class:`Judge` has to say of the records, in order."""
    one = Judge(policy, settings, project, run)
    for record in records:
        if events := one.update(record):
            yield from events
    yield from one.finish()


def situation_of(record: StepRecord, stage: SignalStage, incident: Incident, costs: CostSettings) -> Situation:
    """What the policy may look at, with a checkpoint presumed."""
    step = max(0, incident.onset_step - CHECKPOINT_AGE_STEPS)
    recent = stage.recent
    return Situation(
        incident=incident,
        step=record.step,
        non_finite=may_be_in_weights(record, recent, recent.num_non_finite_losses(), costs.non_finite_steps),
        outside_band=stage.is_outside_band(incident),
        checkpoint=Checkpoint(f"presumed at step {step}", step, 0.0),
        load_seconds=0.0,
        step_seconds=0.0,
        lr_factor=1.0,
    )
