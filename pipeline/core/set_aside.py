"""A run at whose record the stages failed: a defect, which must end neither the job nor the judging of other runs.

The run is set aside for the rest of its attempt: no window, signal or action comes of it. What people ordered, what
it was treated with and what its trainer answers are kept, so that the next attempt begins with them.
"""

from __future__ import annotations

from types import TracebackType

from msgspec import Struct

from holter.pipeline.core.operator import Output
from holter.schemas import InvalidRecord, record_id, topics
from holter.schemas.signals import Signal, SignalPhase

DEFECTS = "run/defects"
_MAX_DETAIL_CHARACTERS = 500


class Defect(Struct, frozen=True):
    """Where and why the stages failed. ``ts`` is the processing time in ms, ``seq`` that of the record, 0 of none.

    ``attempt`` and ``step`` are -1 before the run's first.
    """

    attempt: int
    rank: int
    step: int
    seq: int
    ts: int
    detail: str


class RunSetAside(InvalidRecord):
    """The record is sound, but the stages failed at it. It counts as taken: the run's state tells of it.

    Attributes:
        outputs: what is to be said instead of what would have come of the record.
    """

    def __init__(self, detail: str, outputs: list[Output]) -> None:
        super().__init__("defect", detail)
        self.outputs = outputs


def defect_signal(project: str, run: str, defect: Defect, phase: SignalPhase) -> Signal:
    """That a run is judged no more, or (``close``) again."""
    incident = record_id(topics.SIGNALS.name, project, run, defect.attempt, DEFECTS, defect.step)
    is_open, step = phase == "open", max(0, defect.step)
    return Signal(
        id=record_id(topics.SIGNALS.name, incident, phase),
        project=project,
        run=run,
        attempt=max(0, defect.attempt),
        rank=defect.rank,
        step=step,
        seq=defect.seq,
        ts=defect.ts,
        kind="blind",
        severity="critical",
        phase=phase,
        incident=incident,
        state="stuck" if is_open else "recovered",
        onset_step=step,
        metric=DEFECTS,
        value=float(is_open),
        baseline=0.0,
        score=float(is_open),
        threshold=0.0,
        peak=1.0,
        num_steps=0,
        explanation=_OPENED.format(defect.detail) if is_open else "a new attempt began: the run is judged again",
    )


_OPENED = "Holter itself failed ({}): this run is neither judged nor treated until its next attempt; others are"


def describe(error: Exception) -> str:
    """The error and where it was raised, in one line.

    >>> try:
    ...     [][1]
    ... except IndexError as error:
    ...     describe(error).partition(", at ")[0]
    'IndexError: list index out of range'
    """
    where = _innermost(error.__traceback__)
    said = f"{type(error).__name__}: {error}"[:_MAX_DETAIL_CHARACTERS]
    return f"{said}, at {where}" if where else said


def _innermost(trace: TracebackType | None) -> str:
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
