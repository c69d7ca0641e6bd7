"""Holter's detectors and default policy over a run of the toy, with going back as the only thing that they may do."""

from __future__ import annotations

from holter.pipeline.core.decisions import DecisionStage
from holter.pipeline.core.signals import SignalStage
from holter.pipeline.core.steps import StepRecord
from holter.schemas.bounds import EffectName
from holter.schemas.control import Action, Rollback
from holter.schemas.telemetry import Ack, CheckpointSaved, EffectReport, Event, RunEvent, Started

POLICY = "expected-cost"
_STEP_MS = 100
_ALLOWED: list[EffectName] = ["rollback", "skip_range"]


class ByPolicy:
    """The stages of a live run, fed as a trainer with a ``Guard`` feeds them; they are told nothing of the fault.

    The clock is a tenth of a second a step, so that no machine's speed decides.
    """

    def __init__(self) -> None:
        self._signals = SignalStage("stabilisers", "toy")
        self._decisions = DecisionStage("stabilisers", "toy", POLICY, issuer_epoch=0)
        self._attempt = self._executed = 0
        self._action: Action | None = None
        self._begin()

    def kept(self, step: int) -> None:
        self._tell(step, CheckpointSaved(str(step), save_seconds=0.0, tier="memory"))

    def target(self, step: int, values: dict[str, float]) -> int | None:
        self._executed += 1
        record = StepRecord(self._attempt, 0, step, self._now, self._executed, True, True, values)
        self._signals.update(record, self._now)
        verdicts = self._decisions.update(record, self._signals, self._now)
        self._action = next((each for each in verdicts if isinstance(each, Action)), None)
        effects = self._action.effects if self._action is not None else []
        return next((effect.step for effect in effects if isinstance(effect, Rollback)), None)

    def went_back(self, step: int, back: int) -> None:
        action = self._action
        assert action is not None
        self._attempt += 1
        self._signals.begin_attempt(back)
        self._decisions.begin_attempt(self._attempt, back)
        self._begin()
        self._decisions.on_ack(self._answer(action, step, back), None)

    @property
    def _now(self) -> int:
        return self._executed * _STEP_MS

    def _begin(self) -> None:
        self._tell(0, Started(effects=_ALLOWED, allow=_ALLOWED))

    def _tell(self, step: int, event: Event) -> None:
        record = RunEvent("stabilisers", "toy", self._attempt, 0, "0" * 32, self._executed, step, self._now, event)
        self._decisions.on_event(record)

    def _answer(self, action: Action, step: int, back: int) -> Ack:
        return Ack(
            project=action.project,
            run=action.run,
            attempt=self._attempt,
            rank=0,
            session="0" * 32,
            seq=self._executed,
            step=back,
            ts=self._now,
            action=action.id,
            action_attempt=action.attempt,
            ordinal=action.ordinal,
            status="applied",
            effects=[EffectReport("rollback", float(step), float(back))],
        )
