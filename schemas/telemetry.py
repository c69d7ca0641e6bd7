"""What a training process says: values of its steps, events, and acknowledgements of actions."""

from __future__ import annotations

import struct
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from holter.schemas.bounds import (
    MAX_COLUMNS,
    MAX_INT,
    MAX_STEPS,
    AckStatus,
    Attempt,
    Autonomy,
    Count,
    Digest,
    EffectName,
    Id,
    Metric,
    Millis,
    Name,
    Ordinal,
    Phase,
    Rank,
    Scalar,
    Scope,
    Short,
    SignalKind,
    Split,
    Step,
    Text,
    Tier,
    UpdateNormSource,
)
from holter.schemas.errors import InvalidRecord

LOSS = "train/loss"
GRAD_NORM = "train/grad_norm"
UPDATE_NORM = "train/update_norm"
WEIGHT_NORM = "train/weight_norm"
"""Said after a gradient that was not finite: whether the weights are to blame, or the data."""
LEARNING_RATE = "optim/lr"
LOSS_SCALE = "optim/loss_scale"
VAL_LOSS = "eval/loss"
STEP_SECONDS = "perf/step_seconds"

Column = Annotated[bytes, Meta(min_length=8, max_length=8 * MAX_STEPS)]
"""float64 little-endian, one value a step."""


class SparseColumn(Struct, frozen=True):
    """Values of some of a batch's steps: ``at`` are uint16 offsets into its steps, strictly increasing."""

    at: Annotated[bytes, Meta(min_length=2, max_length=2 * MAX_STEPS)]
    values: Column


class MetricBatch(Struct, tag_field="record", tag="metric_batch", omit_defaults=True, frozen=True):
    """1 to 512 consecutive steps of one rank; absent is not NaN, and NaN and infinities travel as themselves.

    ``steps`` and ``ts`` are int64 little-endian, one a step; ``steps`` increase strictly. ``applied`` has a byte a
    step, 0 where the optimizer step was skipped; empty means that all were applied. The other fields hold for every
    step of the batch.
    """

    VERSION: ClassVar[int] = 1

    project: Name
    run: Name
    attempt: Attempt
    rank: Rank
    session: Id
    seq: Count
    steps: Annotated[bytes, Meta(min_length=8, max_length=8 * MAX_STEPS)]
    ts: Annotated[bytes, Meta(min_length=8, max_length=8 * MAX_STEPS)]
    columns: Annotated[dict[Metric, Column | SparseColumn], Meta(max_length=MAX_COLUMNS)]
    applied: Annotated[bytes, Meta(max_length=MAX_STEPS)] = b""
    split: Split = "train"
    loss_scope: Scope = "rank"
    grad_norm_scope: Scope = "rank"
    grad_norm_scaled: bool = False
    accumulation: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    update_norm_source: UpdateNormSource = "none"
    live: bool = True
    v: int = 1

    @property
    def num_steps(self) -> int:
        return len(self.steps) // 8

    def check(self) -> None:
        """Consistency between fields, which the decoder cannot see.

        Raises:
            InvalidRecord: lengths disagree, steps do not increase, or an offset points outside the batch.
        """
        size = len(self.steps)
        if len(self.ts) != size or size % 8:
            raise InvalidRecord("inconsistent", f"{size} bytes of steps and {len(self.ts)} bytes of ts")
        if self.applied and len(self.applied) != size // 8:
            raise InvalidRecord("inconsistent", f"{len(self.applied)} applied flags for {size // 8} steps")
        for name, column in self.columns.items():
            if isinstance(column, bytes):
                if len(column) != size:
                    raise InvalidRecord("inconsistent", f"column {name!r} has {len(column)} bytes, steps have {size}")
            else:
                _check_sparse(name, column, size // 8)
        if size == 8:
            if self.steps[7] > 127 or self.ts[7] > 127:
                raise InvalidRecord("inconsistent", "a step or ts is negative")
        else:
            _check_increasing(self.step_numbers(), "steps")
            if min(self.timestamps()) < 0:
                raise InvalidRecord("inconsistent", "a ts is negative")

    def step_numbers(self) -> tuple[int, ...]:
        return struct.unpack(f"<{len(self.steps) // 8}q", self.steps)

    def timestamps(self) -> tuple[int, ...]:
        return struct.unpack(f"<{len(self.ts) // 8}q", self.ts)

    def column(self, name: str) -> dict[int, float]:
        """The values of one metric by offset; empty where the batch has none."""
        column = self.columns.get(name)
        if column is None:
            return {}
        if isinstance(column, bytes):
            return dict(enumerate(unpack_floats(column)))
        return dict(zip(unpack_offsets(column.at), unpack_floats(column.values), strict=True))


def unpack_floats(raw: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(raw) // 8}d", raw)


def pack_floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def pack_ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def unpack_offsets(raw: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(raw) // 2}H", raw)


def pack_offsets(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def _check_sparse(name: str, column: SparseColumn, num_steps: int) -> None:
    if len(column.at) % 2 or len(column.values) % 8 or len(column.at) * 4 != len(column.values):
        raise InvalidRecord("inconsistent", f"column {name!r} has {len(column.at)} bytes of offsets "
                            f"and {len(column.values)} of values")  # fmt: skip
    offsets = unpack_offsets(column.at)
    _check_increasing(offsets, f"offsets of column {name!r}")
    if offsets[-1] >= num_steps:
        raise InvalidRecord("inconsistent", f"column {name!r} points at step {offsets[-1]} of {num_steps}")


def _check_increasing(values: tuple[int, ...], what: str) -> None:
    previous = -1
    for value in values:
        if value <= previous:
            raise InvalidRecord("inconsistent", f"{what} do not increase: {value} after {previous}")
        previous = value


class Parent(Struct, frozen=True):
    """Where an attempt comes from: the parent attempt, and the last of its steps that is kept."""

    attempt: Attempt
    step: Step


class Started(Struct, tag_field="event", tag="start", omit_defaults=True, frozen=True):
    """The first event of an attempt. Effects that are not in ``allow`` are only ever proposed (shadow)."""

    config: Annotated[dict[Short, Scalar], Meta(max_length=1000)] = {}
    versions: Annotated[dict[Short, Short], Meta(max_length=100)] = {}
    host: Short = ""
    num_ranks: Annotated[int, Meta(ge=1, le=2**20)] = 1
    parent: Parent | None = None
    measures: Annotated[list[Metric], Meta(max_length=100)] = []
    effects: Annotated[list[EffectName], Meta(max_length=20)] = []
    """What this trainer is able to apply."""
    allow: Annotated[list[EffectName], Meta(max_length=20)] = []
    """What its user lets Holter apply."""
    autonomy: Annotated[dict[EffectName, Autonomy], Meta(max_length=20)] = {}
    """How far by effect; ``auto`` where nothing is said."""
    checkpoint_every_steps: Count = 0


class Finished(Struct, tag_field="event", tag="finish", omit_defaults=True, frozen=True):
    status: Annotated[str, Meta(max_length=32)] = "completed"
    detail: Text = ""


class Resumed(Struct, tag_field="event", tag="resume", frozen=True):
    """The process took up an earlier checkpoint of its own accord (no action of Holter's)."""

    checkpoint: Short


class LearningRateChanged(Struct, tag_field="event", tag="lr_change", frozen=True):
    before: float
    after: float


class BatchSizeChanged(Struct, tag_field="event", tag="batch_size_change", frozen=True):
    before: Count
    after: Count


class DataPhase(Struct, tag_field="event", tag="data_phase", frozen=True):
    """A new epoch, mixture or curriculum stage begins."""

    name: Short


class Evaluated(Struct, tag_field="event", tag="eval", frozen=True):
    metrics: Annotated[dict[Metric, float], Meta(max_length=100)]


class CheckpointSaved(Struct, tag_field="event", tag="checkpoint_saved", omit_defaults=True, frozen=True):
    checkpoint: Short
    save_seconds: float
    num_bytes: Count = 0
    sha256: Digest = ""
    tier: Tier = "disk"
    dropped: Annotated[list[Short], Meta(max_length=100)] = []
    """Earlier ones that are kept no longer, in neither tier."""


class CheckpointVerified(Struct, tag_field="event", tag="checkpoint_verified", omit_defaults=True, frozen=True):
    checkpoint: Short
    load_seconds: float | None = None


class CheckpointQuarantined(Struct, tag_field="event", tag="checkpoint_quarantined", frozen=True):
    checkpoint: Short
    reason: Text


class BadGradient(Struct, tag_field="event", tag="bad_gradient", omit_defaults=True, frozen=True):
    """The reflex of the trainer found the gradient of ``step`` bad and, by itself, left its update out."""

    kind: SignalKind
    metric: Metric
    value: float
    baseline: float
    score: float
    threshold: float
    num_in_a_row: Annotated[int, Meta(ge=1, le=MAX_INT)] = 1
    """Bad steps up to this one, with no good one between."""
    was_taken: bool = False
    """The update was taken all the same: the reflex had left out as many as it may."""


class Heartbeat(Struct, tag_field="event", tag="heartbeat", frozen=True):
    phase: Phase


Event = (
    Started
    | Finished
    | Resumed
    | LearningRateChanged
    | BatchSizeChanged
    | DataPhase
    | Evaluated
    | CheckpointSaved
    | CheckpointVerified
    | CheckpointQuarantined
    | BadGradient
    | Heartbeat
)


class RunEvent(Struct, tag_field="record", tag="run_event", omit_defaults=True, frozen=True):
    """Something that happened to a run at ``step``, the last step that was begun."""

    VERSION: ClassVar[int] = 1

    project: Name
    run: Name
    attempt: Attempt
    rank: Rank
    session: Id
    seq: Count
    step: Step
    ts: Millis
    event: Event
    live: bool = True
    v: int = 1


class EffectReport(Struct, omit_defaults=True, frozen=True):
    """What one effect did: a value before and after where it has one (LR factor, step of the run)."""

    effect: EffectName
    before: float | None = None
    after: float | None = None
    detail: Short = ""


class Ack(Struct, tag_field="record", tag="ack", omit_defaults=True, frozen=True):
    """A trainer's answer to an action, under the attempt that holds after it.

    ``step`` is the boundary at which it was handled, ``digest`` the hash of the action's body that was applied,
    ``latency_ms`` the time from the latch in the trainer to the boundary.
    """

    VERSION: ClassVar[int] = 1

    project: Name
    run: Name
    attempt: Attempt
    rank: Rank
    session: Id
    seq: Count
    step: Step
    ts: Millis
    action: Id
    action_attempt: Attempt
    ordinal: Ordinal
    status: AckStatus
    reason: Text = ""
    digest: Digest = ""
    effects: Annotated[list[EffectReport], Meta(max_length=20)] = field(default_factory=list)
    latency_ms: float | None = None
    live: bool = True
    v: int = 1


Telemetry = MetricBatch | RunEvent | Ack
