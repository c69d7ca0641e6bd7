"""Durable state for an operator at the price of one small append a record, or one for several that came together.

Python functions have no hook at a checkpoint, so whatever is not written at every record is lost at a recovery.
Writing the whole state each time costs by its size; here each *input* is appended to a journal and the whole state
is written once in 64 inputs. An operator is deterministic, so a restore is the last snapshot with the journal played
again, its outputs dropped: they were emitted before the checkpoint that holds the journal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from holter.pipeline.core.operator import KeyedState, Operator, Output
from holter.pipeline.core.set_aside import RunSetAside
from holter.schemas import InvalidRecord

MAX_INPUTS = 64
MAX_BYTES = 16 * 1024

_HEAD = struct.Struct(">BqI")  # source, now, number of bytes of the value that follows


class Journaled:
    """One key's operator, written through to its state.

    Args:
        sources: names of the input topics; their order is part of the stored form and may only grow at its end.
        restore: makes the operator from the last snapshot, or a new one from None.
    """

    __slots__ = ("_index", "_num_bytes", "_num_inputs", "_operator", "_pending", "_sources", "_unsaid")

    def __init__(self, sources: Sequence[str], restore: Callable[[bytes | None], Operator], state: KeyedState) -> None:
        self._sources = tuple(sources)
        self._index = {source: number for number, source in enumerate(self._sources)}
        self._num_inputs = 0
        self._num_bytes = 0
        self._pending: list[bytes] = []
        self._unsaid: list[Output] = []
        self._operator = restore(state.read_snapshot())
        for entry in state.read_journal():
            self._replay(entry)

    @property
    def operator(self) -> Operator:
        return self._operator

    def update(self, source: str, value: bytes, now: int, state: KeyedState) -> list[Output]:
        """Takes one record and writes it down; raises as :meth:`take` does."""
        try:
            return self.take(source, value, now)
        finally:
            self.commit(state)

    def take(self, source: str, value: bytes, now: int) -> list[Output]:
        """Takes one record, to be written down by :meth:`commit`, which has to come before the outputs leave.

        Raises:
            InvalidRecord: as the operator does; nothing is recorded then.
            RunSetAside: it is recorded, its outputs are to leave, and the record is to be set aside.
        """
        try:
            outputs = self._operator.update(source, value, now)
        except RunSetAside:
            self._note(source, value, now)
            self._num_inputs = MAX_INPUTS  # written whole: a restore, or another release, need not meet the defect
            raise
        self._note(source, value, now)
        if self._unsaid:
            outputs, self._unsaid = self._unsaid + outputs, []
        return outputs

    def _note(self, source: str, value: bytes, now: int) -> None:
        self._pending.append(_HEAD.pack(self._index[source], now, len(value)) + value)
        self._num_inputs += 1
        self._num_bytes += _HEAD.size + len(value)

    def commit(self, state: KeyedState) -> None:
        """Writes down what was taken since the last time."""
        if self._num_inputs >= MAX_INPUTS or self._num_bytes >= MAX_BYTES:
            self._snapshot(state)
        elif self._pending:
            state.append_journal(b"".join(self._pending))
            self._pending.clear()

    def on_timer(self, now: int, state: KeyedState) -> list[Output]:
        """A timer is rare and may end the key: the state is written whole."""
        try:
            outputs = self._operator.on_timer(now)
        except RunSetAside as defect:
            outputs = defect.outputs
        self._snapshot(state)
        return outputs

    def deadline(self) -> int | None:
        return self._operator.deadline()

    def to_bytes(self) -> bytes:
        """The whole state of the operator."""
        try:
            return self._operator.to_bytes()
        except RunSetAside as defect:
            self._unsaid += defect.outputs
            return self._operator.to_bytes()

    def _snapshot(self, state: KeyedState) -> None:
        state.write_snapshot(None if self._operator.is_over() else self.to_bytes())
        state.clear_journal()
        self._pending.clear()
        self._num_inputs = 0
        self._num_bytes = 0

    def _replay(self, entry: bytes) -> None:
        start = 0
        while start < len(entry):
            source, now, num_bytes = _HEAD.unpack_from(entry, start)
            start += _HEAD.size + num_bytes
            try:
                self._operator.update(self._sources[source], entry[start - num_bytes : start], now)
            except RunSetAside as defect:  # only after a change of release, else it had been written whole
                self._unsaid += defect.outputs
            except InvalidRecord:  # it was valid then; the key that a person signed with may be gone since
                pass
            self._num_inputs += 1
        self._num_bytes += len(entry)
