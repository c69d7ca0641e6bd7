"""Makes a run's telemetry for tests: one trainer's records with growing seq."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holter.schemas import encode
from holter.schemas.control import Action
from holter.schemas.digests import digest
from holter.schemas.telemetry import (
    Ack,
    EffectReport,
    Event,
    MetricBatch,
    RunEvent,
    Started,
    pack_floats,
    pack_ints,
)

START_MS = 1_764_460_000_000
STEP_MS = 50


@dataclass
class Trainer:
    """Speaks for rank -1 of one run; its clock is the step's."""

    project: str = "gpt"
    run: str = "night"
    attempt: int = 1
    session: str = "session-1"
    rank: int = -1
    seq: int = field(default=0)
    step: int = field(default=0)
    """The next one."""

    def event(self, event: Event) -> bytes:
        record = RunEvent(
            self.project, self.run, self.attempt, self.rank, self.session, self._next(), max(0, self.step - 1),
            self.now(), event,
        )  # fmt: skip
        return encode(record)

    def steps(self, rows: Sequence[Mapping[str, float]], applied: bool = True) -> bytes:
        """One batch of consecutive steps that all have the same metrics."""
        numbers = range(self.step, self.step + len(rows))
        times = [START_MS + STEP_MS * number for number in numbers]
        self.step += len(rows)
        columns = {name: pack_floats(*(row[name] for row in rows)) for name in rows[0]}
        batch = MetricBatch(
            self.project, self.run, self.attempt, self.rank, self.session, self._next(), pack_ints(*numbers),
            pack_ints(*times), columns, applied=b"" if applied else bytes(len(rows)),
        )  # fmt: skip
        return encode(batch)

    def ack(self, action: Action, status: str = "applied", effects: Sequence[EffectReport] = ()) -> bytes:
        record = Ack(
            self.project, self.run, self.attempt, self.rank, self.session, self._next(), max(0, self.step - 1),
            self.now(), action.id, action.attempt, action.ordinal, status,  # type: ignore[arg-type]
            digest=digest(encode(action)), effects=list(effects),
        )  # fmt: skip
        return encode(record)

    def go_back(self, step: int) -> None:
        """A new attempt after this step."""
        self.attempt += 1
        self.seq = 0
        self.step = step + 1

    def now(self) -> int:
        return START_MS + STEP_MS * self.step

    def _next(self) -> int:
        self.seq += 1
        return self.seq - 1


ALL_EFFECTS = Started(
    effects=["lr_factor", "momentum_reset", "rollback", "skip_range", "nan_guard"],
    allow=["lr_factor", "momentum_reset", "rollback", "skip_range", "nan_guard"],
)
