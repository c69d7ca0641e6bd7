"""Runs one :class:`~holter.pipeline.core.operator.Operator` a key on Flink."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, TimerService
from pyflink.datastream.state import ListState, ListStateDescriptor, ValueState, ValueStateDescriptor

from holter.jobs.dead_letters import dead_letter, refusal_of
from holter.jobs.direct_call import answer_directly
from holter.jobs.frames import HEAD_BYTES, MAX_OUTPUT_KEY_BYTES, build_output, parse, split, unpack_lengths
from holter.pipeline.core.journal import Journaled
from holter.pipeline.core.operator import Operator, Output
from holter.pipeline.core.set_aside import RunSetAside
from holter.schemas import InvalidRecord, encode

Restore = Callable[[str, bytes | None], Operator]
"""Makes a key's operator: from its last snapshot, or a new one."""

MAX_KEPT_KEYS = 10_000
_BYTES = Types.PICKLED_BYTE_ARRAY()  # PRIMITIVE_ARRAY(BYTE) turns bytes into tuples and fails on an empty key


def wall_clock_ms() -> int:
    """Flink's processing time, without the way through Java."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class OperatorSpec:
    """What a job's workers need to run its operators; pickled into the job graph, so it holds no secrets.

    Attributes:
        open: called once a worker, before any record; reads key files and the like.
        sources: input topics by full name, with the name that operators know them by. Their order is part of the
            stored state and may only grow at its end.
        dead_letters: index of the topic for what no operator may see.
        reader: who is named in dead letters.
    """

    open: Callable[[], Restore]
    sources: Mapping[str, str]
    dead_letters: int
    reader: str
    max_kept_keys: int = MAX_KEPT_KEYS
    now_ms: Callable[[], int] = wall_clock_ms


class FlinkState:
    """The stored state of Flink's current key."""

    def __init__(self, context: RuntimeContext) -> None:
        self._snapshot: ValueState = context.get_state(ValueStateDescriptor("snapshot", _BYTES))
        self._journal: ListState = context.get_list_state(ListStateDescriptor("journal", _BYTES))
        self._timer: ValueState = context.get_state(ValueStateDescriptor("timer", Types.LONG()))

    def read_snapshot(self) -> bytes | None:
        return self._snapshot.value()  # type: ignore[no-any-return]

    def write_snapshot(self, value: bytes | None) -> None:
        if value is None:
            self._snapshot.clear()
        else:
            self._snapshot.update(value)

    def read_journal(self) -> Iterable[bytes]:
        return self._journal.get()  # type: ignore[no-any-return]

    def append_journal(self, entry: bytes) -> None:
        self._journal.add(entry)

    def clear_journal(self) -> None:
        self._journal.clear()

    def read_timer(self) -> int | None:
        return self._timer.value()  # type: ignore[no-any-return]

    def write_timer(self, time_ms: int | None) -> None:
        if time_ms is None:
            self._timer.clear()
        else:
            self._timer.update(time_ms)


class _Kept:
    """A key in memory; everything in it can be read back from state."""

    __slots__ = ("journaled", "timer_ms")

    def __init__(self, journaled: Journaled, timer_ms: int | None) -> None:
        self.journaled = journaled
        self.timer_ms = timer_ms


class KeyedOperator(KeyedProcessFunction):  # type: ignore[misc]
    """Gathered frames in, output frames out. Every record is written through to state before its outputs leave.

    A key has one pending timer at most. While a deadline only moves later the timer stays, and is set anew when it
    fires: a timer set at every record costs a third more.
    """

    def __init__(self, spec: OperatorSpec) -> None:
        self._spec = spec

    def open(self, runtime_context: RuntimeContext) -> None:
        spec = self._spec
        self._restore = spec.open()
        self._now_ms = spec.now_ms
        self._state = FlinkState(runtime_context)
        self._sources = {name.encode(): source for name, source in spec.sources.items()}
        self._source_names = tuple(spec.sources.values())
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._num_dead_letters = runtime_context.get_metrics_group().counter("holter_dead_letters")
        if answer_directly(self._process):
            self._timers = runtime_context.get_keyed_state_backend()._function_context.timer_service()

    def process_element(self, value: bytes, ctx: KeyedProcessFunction.Context) -> Iterable[bytes]:
        self._timers = ctx.timer_service()
        return self._process(value)

    def _process(self, gathered: bytes) -> Iterable[bytes]:
        """The frames of one key, or of none that could be read."""
        answers: list[bytes] = []
        kept: _Kept | None = None
        for frame in split(gathered):
            flags, topic_length, key_length = unpack_lengths(frame)
            if flags:
                answers.append(self._set_aside(frame, refusal_of(flags)))
                continue
            key_start = HEAD_BYTES + topic_length
            key_end = key_start + key_length
            kept = kept or self._find(frame[key_start:key_end])
            source = self._sources[frame[HEAD_BYTES:key_start]]
            try:
                outputs = kept.journaled.take(source, frame[key_end:], self._now_ms())
            except InvalidRecord as refusal:
                answers.append(self._set_aside(frame, refusal))
                if isinstance(refusal, RunSetAside):
                    answers += _output_frames(refusal.outputs)
            else:
                if outputs:
                    answers += _output_frames(outputs)
        if kept is not None:
            self._keep(kept)
        return answers

    def _keep(self, kept: _Kept) -> None:
        kept.journaled.commit(self._state)
        deadline = kept.journaled.deadline()
        if deadline is not None and (kept.timer_ms is None or deadline < kept.timer_ms):
            self._set_timer(kept, deadline, self._timers)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[bytes]:
        key = ctx.get_current_key().encode()
        kept = self._find(key)
        now = max(self._now_ms(), timestamp)
        outputs = self._fire(kept, now)
        kept.timer_ms = None
        deadline = None if kept.journaled.operator.is_over() else kept.journaled.deadline()
        if deadline is None:
            self._state.write_timer(None)
            del self._kept[key]
        else:
            self._set_timer(kept, max(deadline, now + 1), ctx.timer_service())
        return _output_frames(outputs)

    def _fire(self, kept: _Kept, now: int) -> list[Output]:
        deadline = kept.journaled.deadline()
        due = deadline is not None and deadline <= now
        return kept.journaled.on_timer(now, self._state) if due else []

    def _find(self, key: bytes) -> _Kept:
        kept = self._kept.get(key)
        if kept is None:
            return self._load(key)
        self._kept.move_to_end(key)
        return kept

    def _load(self, key: bytes) -> _Kept:
        name = key.decode()
        state = self._state
        journaled = Journaled(self._source_names, partial(self._restore, name), state)
        kept = self._kept[key] = _Kept(journaled, state.read_timer())
        if len(self._kept) > self._spec.max_kept_keys:
            self._kept.popitem(last=False)
        return kept

    def _set_timer(self, kept: _Kept, time_ms: int, timers: TimerService) -> None:
        if kept.timer_ms is not None:
            timers.delete_processing_time_timer(kept.timer_ms)
        timers.register_processing_time_timer(time_ms)
        self._state.write_timer(time_ms)
        kept.timer_ms = time_ms

    def _set_aside(self, value: bytes, refusal: InvalidRecord) -> bytes:
        frame = parse(value)
        self._num_dead_letters.inc()
        letter = dead_letter(frame, refusal, self._spec.reader, self._now_ms())
        return build_output(self._spec.dead_letters, frame.key[:MAX_OUTPUT_KEY_BYTES], encode(letter))


def _output_frames(outputs: list[Output]) -> list[bytes]:
    return [build_output(topic, key, value) for topic, key, value in outputs]
