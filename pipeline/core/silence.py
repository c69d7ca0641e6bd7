"""Runs that fall silent, that hang or speak with two voices, and the watcher that hears nothing at all.

A trainer that neither steps nor says that it is alive is ``silent``; one that says so while its step stands still is
a ``hang``. When nothing comes from any run the watcher cannot tell a dead job from a dead network: it is ``blind``.
Two processes that speak for the same rank of one attempt are a ``conflict``: only the first is believed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from holter.pipeline.core.stats.ordered import quantile
from holter.pipeline.core.steps import StepRecord
from holter.schemas import record_id, topics
from holter.schemas.bounds import SignalKind
from holter.schemas.signals import Signal, SignalPhase
from holter.schemas.telemetry import STEP_SECONDS, Finished, Heartbeat, MetricBatch, RunEvent, Telemetry

SILENCE_SECONDS = "run/silence_seconds"
SESSIONS = "run/sessions"
Kind = Literal["silent", "blind", "hang"]
_NUM_STEP_SECONDS = 128
_MIN_STEP_SECONDS = 5


@dataclass(frozen=True)
class SilenceSettings:
    silent_ms: int = 60_000
    """A live trainer sends a heartbeat every ten seconds when it has nothing else to send."""
    hang_seconds: float = 60.0
    hang_steps: float = 3.0
    """A step that takes longer than so many times the P99 of the run's steps hangs, and longer than the above."""


class Arrivals:
    """What one worker knows of all its runs: when anything came last, and when it began to. Never stored.

    Args:
        opened_ms: processing time at which the worker began to read.
        pause_ms: nothing from anyone for so long is a blackout, after which every run has its time anew.
    """

    def __init__(self, opened_ms: int = 0, pause_ms: int = SilenceSettings.silent_ms) -> None:
        self.last_ms = self.since_ms = opened_ms
        self._pause_ms = pause_ms

    def note(self, now: int) -> None:
        """Something came; an earlier time, of a journal that is played again, says nothing."""
        if now <= self.last_ms:
            return
        if now - self.last_ms >= self._pause_ms:
            self.since_ms = now
        self.last_ms = now


class SilenceState(Struct):
    last_ms: int = 0
    """Processing time of the run's last live record; 0 where none is expected any more."""
    told: Kind | None = None
    incident: str = ""
    onset_step: int = 0
    last: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    """Attempt, rank, step, seq and trainer's time of the last step done."""
    step_seconds: list[float] = []


class SilenceStage:
    """Watches the clock of one run. Times are milliseconds of processing time unless they are a record's own."""

    def __init__(
        self,
        project: str,
        run: str,
        arrivals: Arrivals,
        settings: SilenceSettings | None = None,
        state: SilenceState | None = None,
    ) -> None:
        kept = state or SilenceState()
        self._project = project
        self._run = run
        self._arrivals = arrivals
        self._settings = settings or SilenceSettings()
        self._last_ms = kept.last_ms
        self._told = kept.told
        self._incident = kept.incident
        self._onset_step = kept.onset_step
        attempt, rank, step, seq, ts = kept.last
        self._last = StepRecord(attempt, rank, step, ts, seq, True, True, {})
        self._step_seconds = deque(kept.step_seconds, _NUM_STEP_SECONDS)

    @property
    def is_blind(self) -> bool:
        """Whether nothing is known of this run because nothing comes from anyone."""
        return self._told == "blind"

    def state(self) -> SilenceState:
        last = self._last
        return SilenceState(
            self._last_ms,
            self._told,
            self._incident,
            self._onset_step,
            (last.attempt, last.rank, last.step, last.seq, last.ts),
            list(self._step_seconds),
        )

    def arrived(self, record: Telemetry, now: int) -> list[Signal]:
        """Takes a live record of the newest attempt; returns what ends or begins with it."""
        self._arrivals.note(now)
        self._last_ms = now
        if type(record) is MetricBatch:
            return [self._close(now)] if self._told is not None else []
        if not isinstance(record, RunEvent):
            return []
        if isinstance(record.event, Finished):
            self._last_ms = 0
        stands_ms = record.ts - self._last.ts
        hangs = isinstance(record.event, Heartbeat) and record.event.phase == "train" and self._hangs(stands_ms)
        if self._told is not None and not (hangs and self._told == "hang"):
            return [self._close(now)]
        return [self._open("hang", record.ts, stands_ms, self._hang_limit_ms())] if hangs and not self._told else []

    def took(self, step: StepRecord) -> None:
        """Notes a step done, and how long it took."""
        self._last = step
        seconds = step.values.get(STEP_SECONDS)
        if seconds is not None and seconds - seconds == 0.0:
            self._step_seconds.append(seconds)

    def conflicts(self, attempt: int, now: int) -> Signal:
        """A second process speaks for a rank of this attempt."""
        incident = record_id(topics.SIGNALS.name, self._project, self._run, attempt, "conflict")
        return self._signal("open", "conflict", incident, attempt, now, 2.0, 1.0, self._last.step)

    def agrees(self, attempt: int, now: int) -> Signal:
        """The attempt in which two processes spoke is over."""
        incident = record_id(topics.SIGNALS.name, self._project, self._run, attempt, "conflict")
        return self._signal("close", "conflict", incident, attempt, now, 1.0, 1.0, self._last.step)

    def deadline(self) -> int | None:
        """When :meth:`fell_silent` has something to say, unless a record comes before."""
        if not self._last_ms or self._told in ("silent", "blind"):
            return None
        return max(self._last_ms, self._arrivals.since_ms) + self._settings.silent_ms

    def fell_silent(self, now: int) -> list[Signal]:
        """The deadline has come: says silent, or blind where nobody else was heard either."""
        deadline = self.deadline()
        if deadline is None or now < deadline:
            return []
        ended = [self._close(now)] if self._told is not None else []
        heard_others = now - self._arrivals.last_ms < self._settings.silent_ms
        kind: Kind = "silent" if heard_others else "blind"
        return [*ended, self._open(kind, now, now - self._last_ms, self._settings.silent_ms)]

    def _hangs(self, stands_ms: int) -> bool:
        return len(self._step_seconds) >= _MIN_STEP_SECONDS and stands_ms > self._hang_limit_ms()

    def _hang_limit_ms(self) -> float:
        usual = quantile(sorted(self._step_seconds), 0.99) if self._step_seconds else 0.0
        return 1000.0 * max(self._settings.hang_seconds, self._settings.hang_steps * usual)

    def _open(self, kind: Kind, ts: int, lasted_ms: int, limit_ms: float) -> Signal:
        last = self._last
        self._told, self._onset_step = kind, last.step
        self._incident = record_id(topics.SIGNALS.name, self._project, self._run, last.attempt, kind, last.step, ts)
        seconds, limit_seconds = lasted_ms / 1000.0, limit_ms / 1000.0
        return self._signal("open", kind, self._incident, last.attempt, ts, seconds, limit_seconds, last.step)

    def _close(self, ts: int) -> Signal:
        kind = self._told
        assert kind is not None
        self._told = None
        return self._signal("close", kind, self._incident, self._last.attempt, ts, 0.0, 0.0, self._onset_step)

    def _signal(
        self,
        phase: SignalPhase,
        kind: SignalKind,
        incident: str,
        attempt: int,
        ts: int,
        value: float,
        threshold: float,
        onset_step: int,
    ) -> Signal:
        last = self._last
        return Signal(
            id=record_id(topics.SIGNALS.name, incident, phase),
            project=self._project,
            run=self._run,
            attempt=attempt,
            rank=last.rank,
            step=last.step,
            seq=last.seq,
            ts=ts,
            kind=kind,
            severity="critical",
            phase=phase,
            incident=incident,
            state="stuck" if phase == "open" else "recovered",
            onset_step=min(onset_step, last.step),
            metric=_METRICS[kind],
            value=value,
            baseline=0.0,
            score=value / threshold if threshold else 0.0,
            threshold=threshold,
            peak=value,
            num_steps=max(0, last.step - onset_step),
            explanation=_explain(phase, kind, value, onset_step),
        )


_METRICS: dict[SignalKind, str] = {
    "silent": SILENCE_SECONDS,
    "blind": SILENCE_SECONDS,
    "hang": STEP_SECONDS,
    "conflict": SESSIONS,
}


def _explain(phase: SignalPhase, kind: SignalKind, seconds: float, step: int) -> str:
    if phase == "close":
        return f"{kind} since step {step} is over"
    if kind == "conflict":
        return "a second process speaks for this run: only the first is believed, and nothing is treated"
    if kind == "hang":
        return f"step {step} has been running for {seconds:.0f} s, the trainer says that it is alive"
    if kind == "silent":
        return f"nothing came from this run for {seconds:.0f} s, other runs are heard"
    return f"nothing came from any run for {seconds:.0f} s: broker, network and trainers cannot be told apart"
