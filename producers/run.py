"""A training run as its script sees it: log values, say what happened, finish."""

from __future__ import annotations

import atexit
import os
import secrets
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from holter.pipeline.bus import Bus
from holter.producers.actions import PendingAction
from holter.producers.control import Control, ControlSource
from holter.producers.cutter import Cutter
from holter.producers.handover import (
    Acknowledged,
    Begun,
    CountedStep,
    Ended,
    Happened,
    Logged,
    Response,
)
from holter.producers.latch import Answer, Latched, Permissions
from holter.producers.notices import Notices, logger
from holter.producers.outbox import DEFAULT_BOUND, Outbox
from holter.producers.records import BatchFacts, Origin, valid_step
from holter.producers.sender import Destination, Sender
from holter.schemas import Keyring
from holter.schemas.bounds import AckStatus, EffectName, Phase, Scalar
from holter.schemas.control import Action, Rollback, effect_name
from holter.schemas.telemetry import EffectReport, Event, Finished, Parent, Started
from holter.schemas.topics import RANKS, TELEMETRY

FLUSH_SECONDS = 5.0
_MAX_EARLY_EVENTS = 100


@dataclass(frozen=True)
class RunSettings:
    """Who the run is and how it speaks. ``connect`` is called on background threads only."""

    project: str
    run: str
    rank: int = 0
    num_ranks: int = 1
    config: Mapping[str, Scalar] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    connect: Callable[[], Bus] | None = None
    """None makes a disabled run."""
    keyring: Keyring | None = None
    permissions: Permissions = field(default_factory=Permissions)
    """Of a loop that applies actions itself; a ``Guard`` has its own."""
    queue_bound: int = DEFAULT_BOUND
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class Beginning:
    """How an attempt begins: what its start event says, and after which step."""

    attempt: int
    permissions: Permissions = field(default_factory=Permissions)
    parent: Parent | None = None
    last_step: int = -1
    """The last step that is kept; -1 where the first may be 0."""
    checkpoint_every_steps: int = 0
    measures: tuple[str, ...] = ()


class Run:
    """Made by :func:`holter.producers.init`. Calls return at once, whatever the bus does, and never raise for it.

    Telemetry that cannot be delivered waits in a bounded queue, whose oldest values go first; a forked child's run
    is silent. As a context manager it finishes as ``failed`` when the block raises.
    """

    def __init__(self, settings: RunSettings) -> None:
        self.project = settings.project
        self.name = settings.run
        self.rank = settings.rank
        self.num_ranks = settings.num_ranks
        self.session = secrets.token_hex(8)
        self.control: Control | None = None
        self.notices = Notices()
        self._settings = settings
        self._pid = os.getpid()
        self._finishers: list[Callable[[], None]] = []
        self._began = self._is_driven = False
        self._early_events: deque[tuple[Event, int | None]] = deque(maxlen=_MAX_EARLY_EVENTS)
        self._attempt = 0
        self._permissions = Permissions()
        self._step_in_progress: int | None = None
        self._last_logged = -1
        self._outbox = Outbox(self.notices, settings.queue_bound)
        self._sender = None if settings.connect is None else self._make_sender(settings.connect)
        self.enabled = self._sender is not None
        """Whether anything is sent: online, not finished, and not the forked child of the process that made it."""
        self._warn_if_open_twice()
        _runs.add(self)

    @property
    def attempt(self) -> int:
        """0 before the first record."""
        return self._attempt

    @property
    def allowed(self) -> frozenset[EffectName]:
        """The effects that may be applied; none before the first record."""
        return self._permissions.allow

    @property
    def is_driven(self) -> bool:
        """Whether a ``Guard`` counts the steps."""
        return self._is_driven

    def log(self, metrics: Mapping[str, Any], step: int | None = None, *, commit: bool = False) -> None:
        """Values of one step, by metric (``namespace/name``).

        Values of the same step are merged until a higher step comes, or at once handed over with ``commit``. Without
        ``step`` they belong to the step in progress where a ``Guard`` counts steps, else every call is a step. A
        step handed over is complete: later values for it, and bad names and values, are counted and left out.
        """
        if not self.enabled:
            return
        try:
            values = dict(metrics)
            for value in values.values():
                kind = type(value)
                if kind is not float and kind is not int:
                    values = _without_graphs(values)
                    break
        except Exception as error:  # a stranger's mapping may raise anything
            self.notices.warn("bad_metrics", f"metrics must map names to numbers ({error}); left out")
            return
        if not self._began and not self._is_driven:
            self._begin_alone()
        step = self._step_in_progress if step is None else step
        self._last_logged = self._last_logged + 1 if step is None else step
        put = self._outbox.put if commit else self._outbox.put_quietly
        put(Logged(step, time.time_ns() // 1_000_000, values, commit))

    def event(self, event: Event, step: int | None = None) -> None:
        """Something that happened at ``step``, by default the last one begun."""
        if not self.enabled or self.rank != 0:
            return
        if not self._began:
            if self._is_driven:
                self._early_events.append((event, step))
                return
            self._begin_alone()
        self._outbox.put(Happened(event, step, self._settings.clock_ms()))

    def poll_actions(self, step: int | None = None) -> Iterator[PendingAction]:
        """The action that is due at the boundary after ``step``, by default the last one logged; mostly none.

        For loops without a ``Guard``, which say with ``init(allow=…)`` what they apply themselves::

            for action in run.poll_actions():
                with action as a:
                    ...                     # all of a.effects
                    a.done(before, after)
        """
        control = self.control
        if control is None or not control.is_pending or self._is_driven:
            return
        boundary = self._last_logged if step is None else step
        if not valid_step(boundary):
            self.notices.warn("bad_step", f"step {boundary!r} is not a count; no action was polled")
            return
        latched = control.take(boundary)
        if latched is None:
            return
        action = PendingAction(latched, lambda *said: self._answer_applied(boundary, *said))
        try:
            yield action
        finally:
            action.refuse("the loop did not take it up")

    def finish(self, status: str = "completed", detail: str = "") -> None:
        """Ends the run and waits at most five seconds for what is not delivered yet. Further calls do nothing."""
        if os.getpid() != self._pid:
            return
        finishers, self._finishers = self._finishers, []
        for finisher in finishers:
            finisher()
        if not self.enabled:
            return
        self._outbox.put(Ended())
        if self._began:
            self.event(Finished(status[:32], detail[:2000]))
        self._close()

    def stats(self) -> dict[str, int]:
        """Counters since the start: records sent, dropped, refused, waiting, connections, and notices by kind."""
        sender = self._sender
        counts = {
            "num_dropped": self._outbox.num_dropped,
            "num_waiting": 0 if sender is None else sender.num_left,
            "num_sent": 0 if sender is None else sender.num_sent,
            "num_refused": 0 if sender is None else sender.num_refused,
            "num_connections": 0 if sender is None else sender.num_connections,
            "num_invalid_control": 0 if self.control is None else self.control.num_invalid,
        }
        return counts | {f"notice_{kind}": count for kind, count in self.notices.counts.items()}

    def begin(self, beginning: Beginning) -> None:
        """Starts an attempt: the first opens the connection, a later one follows a rollback."""
        if not self.enabled:
            return
        self._attempt = beginning.attempt
        self._permissions = beginning.permissions
        self._outbox.put(Begun(self._origin(beginning.attempt), beginning.last_step, self._is_driven))
        first, self._began = not self._began, True
        self.event(self._started(beginning), max(0, beginning.last_step))
        while self._early_events:
            self.event(*self._early_events.popleft())
        if first:
            self._open(beginning)
        elif self.control is not None:
            self.control.begin_attempt(beginning.attempt)

    def log_step(self, metrics: dict[str, Any], step: int, ts_ms: int, applied: bool, facts: BatchFacts) -> None:
        """A complete step of a ``Guard``; merged with what was logged for it, and handed over."""
        if self.enabled:
            self._outbox.put(CountedStep(step, ts_ms, metrics, applied, facts))

    def acknowledge(self, action: Action, status: AckStatus, step: int | None = None, **said: Any) -> None:
        """Answers an action; ``said`` are further fields of :class:`~holter.producers.handover.Response`."""
        response = Response(action.id, action.attempt, action.ordinal, status, step, **said)
        self.respond(response)
        if status == "applied":  # as a warning: what changed the training is seen where a script sets up no logging
            names = ", ".join(effect_name(effect) for effect in action.effects)
            logger.warning("Holter applied at step %s: %s (%s)", step, names, action.reason or action.incident)

    def respond(self, response: Response) -> None:
        """Answers an action, under the attempt that holds now."""
        if self.enabled:
            self._outbox.put(Acknowledged(response, self._settings.clock_ms()))

    def drive(self, finisher: Callable[[], None]) -> None:
        """A ``Guard`` counts the steps from now on; ``finisher`` hands over its last ones when the run finishes.

        Raises:
            ValueError: another one does already, or ``init`` was told what a loop without one applies.
        """
        if self._settings.permissions.allow:
            raise ValueError("a Guard is told itself what is allowed: leave allow= out of init")
        if self._is_driven:
            raise ValueError(f"run {self.name!r} is guarded already: one Guard, Hooks or integration for each run")
        self._is_driven = True
        self._step_in_progress = 1
        self._finishers.append(finisher)

    def advance(self, step_in_progress: int) -> None:
        """What values that are logged without a step belong to from now on."""
        self._step_in_progress = step_in_progress

    def set_phase(self, phase: Phase) -> None:
        """What the heartbeats say."""
        if self._sender is not None:
            self._sender.phase = phase

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self.finish("failed", f"{type(error).__name__}: {error}")

    def _warn_if_open_twice(self) -> None:
        if not self.enabled:
            return
        identity = (self.project, self.name, self.rank)
        other = _newest_of_name.get(identity)
        if other is not None and other.enabled:
            self.notices.warn("open_twice", f"run {self.name!r} is open here already: give each run a name of its own")
        _newest_of_name[identity] = self

    def _begin_alone(self) -> None:
        """No ``Guard`` says how."""
        permissions = self._settings.permissions
        if self.num_ranks > 1 and permissions.allow:
            logger.warning("no action is applied: %d ranks could not agree on it without a Guard", self.num_ranks)
            permissions = Permissions()
        able = ", ".join(sorted(permissions.capabilities)) or "nothing"
        logger.info("Holter sees what this run is given by log; it can apply %s", able)
        self.begin(Beginning(self._settings.clock_ms(), permissions))

    def _origin(self, attempt: int) -> Origin:
        return Origin(self.project, self.name, attempt, self.rank, self.session)

    def _make_sender(self, connect: Callable[[], Bus]) -> Sender:
        key = f"{self.project}/{self.name}"
        topic, key = (TELEMETRY, key) if self.rank == 0 else (RANKS, f"{key}/{self.rank}")
        destination = Destination(topic, key.encode(), f"holter-trainer-{self.name}-{self.rank}")
        cutter = Cutter(self._origin(0), self.notices, self._settings.monotonic)
        return Sender(connect, destination, self._outbox, cutter, self.notices, self._settings.clock_ms)

    def _started(self, beginning: Beginning) -> Started:
        permissions = beginning.permissions
        return Started(
            config=dict(self._settings.config),
            versions=dict(self._settings.versions),
            host=self._settings.host,
            num_ranks=self.num_ranks,
            parent=beginning.parent,
            measures=list(beginning.measures),
            effects=sorted(permissions.capabilities),
            allow=sorted(permissions.allow),
            autonomy=dict(permissions.autonomy),
            checkpoint_every_steps=beginning.checkpoint_every_steps,
        )

    def _open(self, beginning: Beginning) -> None:
        if self._sender is not None:
            self._sender.start()
            atexit.register(self._at_exit)
        if self._settings.keyring is not None and self._settings.connect is not None and _acts(beginning.permissions):
            source = ControlSource(
                self._settings.connect, self._settings.keyring, f"holter-trainer-{self.name}-{self.rank}"
            )
            self.control = Control(
                self.project,
                self.name,
                beginning.attempt,
                beginning.permissions,
                source,
                self._answer,
                self.notices,
                self._settings.clock_ms,
            )
            self.control.start()

    def _answer(self, answer: Answer) -> None:
        self.acknowledge(answer.action, answer.status, reason=answer.reason, digest=answer.digest)

    def _answer_applied(
        self, step: int, latched: Latched, status: AckStatus, reason: str, effects: tuple[EffectReport, ...]
    ) -> None:
        if status == "applied":
            if self.control is not None:
                self.control.record_applied(latched)
            self._follow_rollback(latched.action)
        latency_ms = self._settings.clock_ms() - latched.latched_ms
        digest = latched.digest if status == "applied" else ""
        said = {"reason": reason, "digest": digest, "effects": effects, "latency_ms": latency_ms}
        self.acknowledge(latched.action, status, step, **said)

    def _follow_rollback(self, action: Action) -> None:
        """What a loop does after it went back is an attempt of its own, under which the action is answered."""
        step = next((effect.step for effect in action.effects if isinstance(effect, Rollback)), None)
        if step is None:
            return
        self._last_logged = step
        number = max(self._attempt + 1, self._settings.clock_ms())
        self.begin(Beginning(number, self._permissions, Parent(self._attempt, step), step))

    def _at_exit(self) -> None:
        if self.enabled:
            self.finish("exited", "the process ended without finish()")

    def _close(self) -> None:
        self.enabled = False
        atexit.unregister(self._at_exit)
        if self.control is not None:
            self.control.stop()
        if self._sender is not None and self._began and not self._sender.stop(FLUSH_SECONDS):
            self.notices.warn("unsent", f"{self._sender.num_left} of Holter's records were not delivered")


def _acts(permissions: Permissions) -> bool:
    return bool(permissions.capabilities - {_REFLEX})


def _without_graphs(values: dict[str, Any]) -> dict[str, Any]:
    """Tensors without the graph that made them, so that a queued loss does not keep a step's memory."""
    return {name: value.detach() if hasattr(value, "detach") else value for name, value in values.items()}


def _silence_child() -> None:
    """A forked child has the run but none of its threads."""
    for run in _runs:
        run.enabled = False


_REFLEX: EffectName = "nan_guard"
_runs: weakref.WeakSet[Run] = weakref.WeakSet()
_newest_of_name: weakref.WeakValueDictionary[tuple[str, str, int], Run] = weakref.WeakValueDictionary()
os.register_at_fork(after_in_child=_silence_child)
