"""What the training thread hands over, and how the sender turns it into bytes.

A record is cut, and has its ``seq``, before it enters any queue; encoding, which costs more, is the sender's.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import structs

from holter.producers.notices import Notices
from holter.schemas import encode
from holter.schemas.bounds import MAX_COLUMNS, MAX_INT, MAX_RECORD_BYTES, Scope, Split, UpdateNormSource
from holter.schemas.telemetry import Ack, MetricBatch, RunEvent, SparseColumn, pack_floats, pack_ints, pack_offsets

MAX_METRIC_LENGTH = 128
NOT_LIVE_AFTER_MS = 60_000


@dataclass(frozen=True)
class Origin:
    """Who speaks: constant for an attempt of one process."""

    project: str
    run: str
    attempt: int
    rank: int
    session: str


@dataclass(frozen=True)
class BatchFacts:
    """What holds for every step of a batch; a change cuts it."""

    split: Split = "train"
    loss_scope: Scope = "rank"
    grad_norm_scope: Scope = "rank"
    grad_norm_scaled: bool = False
    accumulation: int = 1
    update_norm_source: UpdateNormSource = "none"


class StepRow(NamedTuple):
    step: int
    ts_ms: int
    values: Mapping[str, Any]
    applied: bool = True


class CutBatch(NamedTuple):
    """Steps of one record, in order."""

    origin: Origin
    seq: int
    facts: BatchFacts
    rows: Sequence[StepRow]


Cut = CutBatch | RunEvent | Ack


class RecordEncoder:
    """Bytes of cut records. Bad values and names are counted, reported once and left out."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._known_names: set[str] = set()

    def encode(self, cut: Cut, now_ms: int) -> bytes | None:
        """None where nothing sendable is left."""
        if isinstance(cut, CutBatch):
            return self._encode_batch(cut, now_ms)
        if now_ms - cut.ts > NOT_LIVE_AFTER_MS:
            cut = structs.replace(cut, live=False)
        return self._bounded(encode(cut))

    def _encode_batch(self, cut: CutBatch, now_ms: int) -> bytes | None:
        rows = cut.rows
        steps = [row.step for row in rows]
        columns = self._dense(rows[0]) if len(rows) == 1 else self._columns(rows)
        origin, facts = cut.origin, cut.facts
        return self._bounded(
            encode(
                MetricBatch(
                    project=origin.project,
                    run=origin.run,
                    attempt=origin.attempt,
                    rank=origin.rank,
                    session=origin.session,
                    seq=cut.seq,
                    steps=pack_ints(*steps),
                    ts=pack_ints(*[row.ts_ms for row in rows]),
                    columns=columns,
                    applied=b"" if all(row.applied for row in rows) else bytes(row.applied for row in rows),
                    split=facts.split,
                    loss_scope=facts.loss_scope,
                    grad_norm_scope=facts.grad_norm_scope,
                    grad_norm_scaled=facts.grad_norm_scaled,
                    accumulation=facts.accumulation,
                    update_norm_source=facts.update_norm_source,
                    live=now_ms - rows[-1].ts_ms <= NOT_LIVE_AFTER_MS,
                )
            )
        )

    def _dense(self, row: StepRow) -> dict[str, bytes | SparseColumn]:
        return {name: pack_floats(value) for name, value in self._clean(row.values).items()}

    def _columns(self, rows: Sequence[StepRow]) -> dict[str, bytes | SparseColumn]:
        found: dict[str, tuple[list[int], array[float]]] = {}
        for offset, row in enumerate(rows):
            for name, value in self._clean(row.values).items():
                if name not in found:
                    if len(found) == MAX_COLUMNS:
                        self._notices.warn("too_many_metrics", f"more than {MAX_COLUMNS} metrics: {name} is left out")
                        continue
                    found[name] = ([], array("d"))
                found[name][0].append(offset)
                found[name][1].append(value)
        return {name: _column(offsets, values, len(rows)) for name, (offsets, values) in found.items()}

    def _clean(self, values: Mapping[str, Any]) -> dict[str, float]:
        clean: dict[str, float] = {}
        for name, value in values.items():
            if name not in self._known_names and not self._accept(name):
                continue
            if type(value) is not float:
                try:
                    value = float(value)
                except Exception:  # a stranger's __float__ may raise anything
                    self._notices.warn("bad_value", f"{name}: a {type(value).__name__} is no number; left out")
                    continue
            if len(clean) < MAX_COLUMNS:
                clean[name] = value
            else:
                self._notices.warn("too_many_metrics", f"more than {MAX_COLUMNS} metrics: {name} is left out")
        return clean

    def _accept(self, name: Any) -> bool:
        if isinstance(name, str) and 0 < len(name) <= MAX_METRIC_LENGTH and _encodable(name):
            if len(self._known_names) < 10 * MAX_COLUMNS:
                self._known_names.add(name)
            return True
        shown = str(name)[:50]
        self._notices.warn("bad_name", f"metric name {shown!r} is not 1 to {MAX_METRIC_LENGTH} characters; left out")
        return False

    def _bounded(self, raw: bytes) -> bytes | None:
        if len(raw) <= MAX_RECORD_BYTES:
            return raw
        self._notices.warn("oversized", f"a record of {len(raw)} bytes is over {MAX_RECORD_BYTES} and is dropped")
        return None


def valid_step(step: object) -> bool:
    return isinstance(step, int) and 0 <= step <= MAX_INT


def _encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _column(offsets: list[int], values: array[float], num_rows: int) -> bytes | SparseColumn:
    raw = pack_floats(*values)
    return raw if len(offsets) == num_rows else SparseColumn(pack_offsets(*offsets), raw)
