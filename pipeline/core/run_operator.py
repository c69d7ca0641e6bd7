"""Everything that is known about one run: the stages in order, behind one intake.

``watch`` runs windows, signals and decisions; the read-only deployments run the first one or two of them, so that
all say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from holter.pipeline.core.decide.written_policy import DEFAULT_PRESET, policy_from_text
from holter.pipeline.core.decisions import DecisionStage, DecisionState
from holter.pipeline.core.intake import Intake, IntakeState
from holter.pipeline.core.operator import Operator, Output, StateVersionError
from holter.pipeline.core.set_aside import Defect, RunSetAside, defect_signal, describe
from holter.pipeline.core.signals import SignalSettings, SignalStage, SignalState
from holter.pipeline.core.silence import Arrivals, SilenceStage, SilenceState
from holter.pipeline.core.steps import StepRecord, steps_of
from holter.pipeline.core.windows import WindowStage, WindowState
from holter.schemas import InvalidRecord, Key, Keyring, codec, encode, topics
from holter.schemas.commands import Command, HoldState
from holter.schemas.control import Action, Health
from holter.schemas.signals import Signal, SignalPhase
from holter.schemas.telemetry import Ack, BadGradient, Finished, MetricBatch, RunEvent, Started, Telemetry
from holter.schemas.topics import Topic, check_key
from holter.schemas.windows import WindowStat

STATE_VERSION = 2
READ_VERSIONS = (1, STATE_VERSION)
"""Of version 1 all is kept but what its detectors had learned of the run's noise: those start afresh."""
IDLE_MS = 7 * 86_400_000
FINISHED_MS = 3_600_000
TOMBSTONE_MS = 90 * 86_400_000

_TELEMETRY = topics.TELEMETRY.name
_SIGNED = {topic.name: topic for topic in (topics.COMMANDS, topics.HOLDS)}

Derived = WindowStat | Signal | msgspec.Struct


@dataclass(frozen=True)
class Deployment:
    """What one job does with a run.

    Attributes:
        outputs: topics that are written, in the order of :attr:`Output.topic`.
        sources: topics that are read; their order is part of the stored state.
        signer: signs control; needed where there are decisions.
        keyring: opens what people sign.
        policy: as :func:`policy_from_text` reads it.
        settings: of the signals stage.
    """

    outputs: tuple[Topic, ...]
    sources: tuple[Topic, ...] = (topics.TELEMETRY,)
    has_windows: bool = False
    has_signals: bool = False
    has_decisions: bool = False
    policy: str = DEFAULT_PRESET
    issuer_epoch: int = 0
    signer: Key | None = None
    keyring: Keyring | None = field(default=None, repr=False)
    settings: SignalSettings = field(default_factory=SignalSettings)

    def __post_init__(self) -> None:
        policy_from_text(self.policy)
        if self.has_decisions and (self.signer is None or self.signer.role != "issuer"):
            raise ValueError("decisions need an issuer key to sign with")


WATCH_SOURCES = (topics.TELEMETRY, topics.COMMANDS, topics.HOLDS)
WATCH_OUTPUTS = (topics.WINDOWS, topics.SIGNALS, topics.DECISIONS, topics.CONTROL, topics.DLQ)


def watch(
    signer: Key,
    keyring: Keyring | None,
    issuer_epoch: int,
    policy: str = DEFAULT_PRESET,
    settings: SignalSettings | None = None,
) -> Deployment:
    """The one deployment of a prefix that may act."""
    return Deployment(
        outputs=WATCH_OUTPUTS,
        sources=WATCH_SOURCES,
        has_windows=True,
        has_signals=True,
        has_decisions=True,
        policy=policy,
        issuer_epoch=issuer_epoch,
        signer=signer,
        keyring=keyring,
        settings=settings or SignalSettings(),
    )


WINDOW_STATS = Deployment(outputs=(topics.WINDOWS, topics.DLQ), has_windows=True)
SIGNALS = Deployment(outputs=(topics.SIGNALS, topics.DLQ), has_signals=True)


class RunState(Struct, omit_defaults=True):
    """The stored form. A change of any part that old bytes do not fit needs a new version and a reader of this one."""

    version: int
    attempt: int
    last_arrival: int
    finished_at: int | None
    is_tombstone: bool
    intake: IntakeState | None = None
    windows: WindowState | None = None
    signals: SignalState | None = None
    decisions: DecisionState | None = None
    silence: SilenceState | None = None
    held_since: int = 0
    """When a hold that still stands was signed: it outlives all else that was known of the run."""
    defect: Defect | None = None
    """Of an attempt that is judged no more."""


class _Version(Struct):
    version: int


_DECODE = msgspec.msgpack.Decoder(RunState).decode
_ENCODE = msgspec.msgpack.Encoder().encode


def restore(key: str, deployment: Deployment, snapshot: bytes | None, arrivals: Arrivals | None = None) -> RunOperator:
    """The operator of a key from its last snapshot, or a new one; ``arrivals`` is shared by all keys of a worker.

    Raises:
        StateVersionError: the snapshot is of a version that this release does not read.
    """
    if snapshot is None:
        return RunOperator(key, deployment, arrivals=arrivals)
    version = msgspec.msgpack.decode(snapshot, type=_Version).version
    if version not in READ_VERSIONS:
        known = " and ".join(map(str, READ_VERSIONS))
        raise StateVersionError(f"state of {key!r} is of version {version}, this release reads {known}")
    return RunOperator(key, deployment, _DECODE(snapshot), arrivals)


class RunOperator:
    def __init__(
        self, key: str, deployment: Deployment, state: RunState | None = None, arrivals: Arrivals | None = None
    ) -> None:
        self._key = key
        self._arrivals = arrivals or Arrivals()
        self._key_bytes = key.encode()
        self._project, _, self._run = key.partition("/")
        self._deployment = deployment
        self._output_index = {topic.name: index for index, topic in enumerate(deployment.outputs)}
        self._last_arrival = state.last_arrival if state else 0
        self._finished_at = state.finished_at if state else None
        self._is_tombstone = state.is_tombstone if state else False
        self._is_over = False
        self._defect = state.defect if state else None
        self._intake = Intake(state.intake if state else None)
        if state is not None:
            self._intake.state.attempt = state.attempt
        self._build_stages(state)

    def update(self, source: str, value: bytes, now: int) -> list[Output]:
        if source == _TELEMETRY:
            record = codec.telemetry.decode(value)
            if record.project != self._project or record.run != self._run or "/" in record.run:
                check_key(self._key, record)
            self._last_arrival = now
            try:
                return self._telemetry(record, now)
            except Exception as error:
                raise self._set_aside(error, now, record.seq) from error
        topic = _SIGNED.get(source)
        if topic is None:
            return []
        command = self._opened(value, topic)
        try:
            return self._command(command, now)
        except Exception as error:
            raise self._set_aside(error, now) from error

    def on_timer(self, now: int) -> list[Output]:
        """Says that a run fell silent; forgets one that ended long ago but for its attempt, and later that, too."""
        try:
            return self._on_timer(now)
        except Exception as error:
            raise self._set_aside(error, now) from error

    def _on_timer(self, now: int) -> list[Output]:
        told = self._emit(self._silence.fell_silent(now)) if self._silence is not None else []
        deadline = self._forgotten_at()
        if deadline is None or now < deadline:
            return told
        if self._is_tombstone:
            self._is_over = True
            return []
        outputs = told + self._emit(self._closing())
        self._is_tombstone = True
        self._last_arrival = now
        attempt, held_since = self._intake.state.attempt, self._held_since()
        self._intake = Intake(IntakeState(attempt=attempt))
        self._build_stages(RunState(STATE_VERSION, attempt, now, None, True, held_since=held_since))
        return outputs

    def deadline(self) -> int | None:
        silent_at = self._silence.deadline() if self._silence is not None else None
        forgotten_at = self._forgotten_at()
        if silent_at is None or forgotten_at is None:
            return forgotten_at
        return min(silent_at, forgotten_at)

    def _forgotten_at(self) -> int | None:
        if self._is_tombstone:
            return self._last_arrival + TOMBSTONE_MS
        if self._finished_at is not None:
            return self._finished_at + FINISHED_MS
        return self._last_arrival + IDLE_MS if self._last_arrival else None

    def is_over(self) -> bool:
        return self._is_over

    def to_bytes(self) -> bytes:
        try:
            return _ENCODE(self._state())
        except Exception as error:
            raise self._set_aside(error, self._last_arrival) from error

    def _state(self) -> RunState:
        attempt = self._intake.state.attempt
        state = RunState(STATE_VERSION, attempt, self._last_arrival, self._finished_at, self._is_tombstone)
        state.held_since = self._held_since()
        state.defect = self._defect
        if not self._is_tombstone:
            state.intake = self._intake.state
            state.windows = self._windows.state if self._windows else None
            state.signals = self._signals.state() if self._signals else None
            state.decisions = self._decisions.state() if self._decisions else None
            state.silence = self._silence.state() if self._silence else None
        return state

    def _build_stages(self, state: RunState | None) -> None:
        kept = state or RunState(STATE_VERSION, -1, 0, None, False)
        self._build_judging(kept)
        deployment = self._deployment
        self._decisions = (
            DecisionStage(self._project, self._run, deployment.policy, deployment.issuer_epoch, state=kept.decisions)
            if deployment.has_decisions
            else None
        )
        if self._decisions is not None and kept.held_since:
            self._decisions.safety.held(True, kept.held_since)

    def _build_judging(self, kept: RunState) -> None:
        deployment = self._deployment
        project, run = self._project, self._run
        self._windows = WindowStage(project, run, kept.windows) if deployment.has_windows else None
        self._signals = SignalStage(project, run, deployment.settings, kept.signals) if deployment.has_signals else None
        self._silence = (
            SilenceStage(project, run, self._arrivals, state=kept.silence) if deployment.has_signals else None
        )

    def _held_since(self) -> int:
        if self._decisions is None or not self._decisions.safety.state.on_hold:
            return 0
        return self._decisions.safety.state.hold_ts

    def _set_aside(self, error: Exception, now: int, seq: int = 0) -> RunSetAside:
        """From now on nothing is judged in this attempt; the stages, which may be in any state, are built anew."""
        detail, intake = describe(error), self._intake.state
        self._build_judging(RunState(STATE_VERSION, -1, 0, None, False))
        if self._defect is not None and self._defect.attempt == intake.attempt:
            return RunSetAside(detail, [])
        told = self._end_defect(now)
        self._defect = Defect(intake.attempt, intake.judged_rank, intake.last_step, seq, now, detail)
        return RunSetAside(detail, self._emit([*told, *self._tell_defect(self._defect, "open")]))

    def _end_defect(self, now: int) -> list[Derived]:
        """The attempt that was set aside is over."""
        defect, self._defect = self._defect, None
        return self._tell_defect(msgspec.structs.replace(defect, ts=now), "close") if defect is not None else []

    def _tell_defect(self, defect: Defect, phase: SignalPhase) -> list[Derived]:
        return [defect_signal(self._project, self._run, defect, phase)] if self._deployment.has_signals else []

    def _unjudged(self, record: Telemetry) -> None:
        """Of a run that is set aside, what concerns treatment is noted: capabilities, checkpoints and answers."""
        if isinstance(record, RunEvent):
            if isinstance(record.event, Finished):
                self._finished_at = self._last_arrival
            if self._decisions is not None:
                self._decisions.on_event(record)
        elif self._decisions is not None and isinstance(record, Ack):
            self._decisions.on_ack(record, None)

    def _telemetry(self, record: Telemetry, now: int) -> list[Output]:
        intake = self._intake
        previous, had_conflict = intake.state.attempt, intake.state.has_conflict
        if not intake.accept(record):
            return self._emit(self._conflict(record.attempt, now)) if intake.state.has_conflict > had_conflict else []
        self._is_tombstone = False
        derived: list[Derived] = [] if record.attempt == previous else self._begin_attempt(record)
        if self._defect is not None and self._defect.attempt == record.attempt:
            self._unjudged(record)
            return []
        if self._silence is not None and record.live:
            derived += self._silence.arrived(record, now)
            if had_conflict and record.attempt != previous:
                derived.append(self._silence.agrees(previous, now))
        if type(record) is MetricBatch:
            if record.split == "train":
                for step in steps_of(record):
                    self._step(step, now, derived)
        elif isinstance(record, RunEvent):
            self._event(record, now, derived)
        elif self._decisions is not None and self._signals is not None and isinstance(record, Ack):
            self._decisions.on_ack(record, self._signals.incident)
        if self._defect is not None:
            derived = self._end_defect(now) + derived
        return self._emit(derived) if derived else []

    def _conflict(self, attempt: int, now: int) -> list[Derived]:
        """A second process speaks for a rank: from now on nothing is treated."""
        if self._decisions is not None:
            self._decisions.safety.state.conflict = True
        return [self._silence.conflicts(attempt, now)] if self._silence is not None else []

    def _step(self, step: StepRecord, now: int, derived: list[Derived]) -> None:
        if self._windows is not None:
            derived.extend(self._windows.update(step, now))
        signals = self._signals
        if signals is None or not self._intake.advances(step.rank, step.step):
            return
        if self._silence is not None:
            self._silence.took(step)
        derived.extend(signals.update(step, now))
        if self._decisions is not None:
            derived.extend(self._decisions.update(step, signals, now))

    def _event(self, record: RunEvent, now: int, derived: list[Derived]) -> None:
        if self._decisions is not None:
            self._decisions.on_event(record)
        if self._signals is not None and isinstance(record.event, BadGradient):
            derived.append(self._signals.report(record, record.event))
        elif self._signals is not None:
            self._signals.on_event(record.event)
        if isinstance(record.event, Finished):
            derived.extend(self._closing())
            self._finished_at = now

    def _begin_attempt(self, record: Telemetry) -> list[Derived]:
        """The attempt of this record is new; where it says so, it goes on after a step of an earlier one."""
        self._finished_at = None
        kept_step = _kept_step(record)
        derived: list[Derived] = []
        if self._signals is not None:
            derived.extend(self._signals.begin_attempt(kept_step))
        if self._decisions is not None:
            self._decisions.begin_attempt(record.attempt, kept_step)
        return derived

    def _closing(self) -> list[Derived]:
        derived: list[Derived] = []
        if self._windows is not None:
            derived.extend(self._windows.finish())
        if self._signals is not None:
            derived.extend(self._signals.finish())
        return derived

    def _opened(self, value: bytes, topic: Topic) -> Command | HoldState:
        """A person's record whose signature holds.

        Raises:
            InvalidRecord: it does not, or no keys are known here.
        """
        keyring = self._deployment.keyring
        if keyring is None or topic.role is None:
            raise InvalidRecord("unknown_key_id", "this deployment has no keys")
        record: Command | HoldState = topic.decoder.decode(keyring.open(value, topic.role))
        check_key(self._key, record)
        return record

    def _command(self, command: Command | HoldState, now: int) -> list[Output]:
        if self._decisions is None or self._signals is None:
            return []
        is_blind = self._silence is not None and self._silence.is_blind
        self._decisions.safety.is_blind = is_blind or self._defect is not None
        return self._emit(self._decisions.on_command(command, self._signals, now))

    def _emit(self, derived: Sequence[Derived]) -> list[Output]:
        return [self._output(record) for record in derived]

    def _output(self, record: Derived) -> Output:
        body = encode(record)
        if isinstance(record, WindowStat):
            topic = topics.WINDOWS
        elif isinstance(record, Signal):
            topic = topics.SIGNALS
        elif isinstance(record, Action | Health):
            topic = topics.CONTROL
            assert self._deployment.signer is not None
            body = self._deployment.signer.sign(body)
        else:
            topic = topics.DECISIONS
        return Output(self._output_index[topic.name], self._key_bytes, body)


def _kept_step(record: Telemetry) -> int:
    """The last step of earlier attempts that the new one keeps."""
    if isinstance(record, RunEvent):
        if isinstance(record.event, Started) and record.event.parent is not None:
            return record.event.parent.step
        return record.step - 1
    if isinstance(record, MetricBatch):
        return record.step_numbers()[0] - 1
    return record.step


_conforms: type[Operator] = RunOperator
