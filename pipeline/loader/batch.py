"""What was read and is not yet in the store: records by kind, and how far each partition was read."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from holter.pipeline.loader.decode import Message, dead_letter, open_message
from holter.pipeline.loader.metric_tables import metric_tables
from holter.pipeline.loader.record_rows import Row, attempt_row, rows_of
from holter.pipeline.loader.schemas import SCHEMAS
from holter.schemas.dead_letter import DeadLetter
from holter.schemas.errors import InvalidRecord
from holter.schemas.telemetry import MetricBatch
from holter.schemas.topics import DLQ, Topic

Partition = tuple[str, int]


class Batch:
    """Collects messages until it is inserted. ``token`` is drawn once and names these very bytes."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self.token = secrets.token_hex(16)
        self.next_offsets: dict[Partition, int] = {}
        self.dead_letters: list[DeadLetter] = []
        self.num_rows = 0
        self.num_records = 0
        self.num_unreadable_dead_letters = 0
        self._topics = topics
        self._until_ms: dict[Partition, int] = {}
        self._metrics: list[MetricBatch] = []
        self._rows: defaultdict[str, list[Row]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self.next_offsets)

    def add_all(self, messages: Sequence[Message], now_ms: int) -> None:
        """Messages of one partition in their order. What cannot be read becomes a dead letter."""
        if not messages:
            return
        topic = self._topics[messages[0].topic]
        for message in messages:
            self._add(message, topic, now_ms)
        last = messages[-1]
        partition = (last.topic, last.partition)
        self.next_offsets[partition] = last.offset + 1
        self._until_ms[partition] = last.timestamp
        self.num_records += len(messages)

    def tables(self) -> dict[str, pa.Table]:
        """What to insert, in this order; pure, so that a retry sends the same bytes."""
        rows = dict(self._rows)
        rows["raw_attempts"] = [*self._attempts_heard_of(), *rows.get("raw_attempts", [])]
        rows["raw_loaded"] = self._loaded()
        found = metric_tables(self._metrics) if self._metrics else {}
        for table, table_rows in rows.items():
            made = pa.Table.from_pylist(table_rows, schema=SCHEMAS[table])
            found[table] = _concat(found[table], made) if table in found else made
        return {table: found[table] for table in SCHEMAS if table in found and found[table].num_rows}

    def _add(self, message: Message, topic: Topic, now_ms: int) -> None:
        try:
            opened = open_message(message, topic)
        except InvalidRecord as error:
            self._set_aside(message, topic, error, now_ms)
            return
        if opened is None:
            return
        record = opened.record
        if type(record) is MetricBatch:
            self._metrics.append(record)
            self.num_rows += (len(record.steps) >> 3) * (len(record.columns) + 1)
        else:
            self._add_rows(record, opened.key_id)

    def _add_rows(self, record: msgspec.Struct, key_id: str) -> None:
        for table, row in rows_of(record, key_id):
            self._rows[table].append(row)
            self.num_rows += 1

    def _set_aside(self, message: Message, topic: Topic, error: InvalidRecord, now_ms: int) -> None:
        """A dead letter that cannot be read is only counted: set aside again it would come back for ever."""
        if topic is DLQ:
            self.num_unreadable_dead_letters += 1
        else:
            self.dead_letters.append(dead_letter(message, error, now_ms))

    def _attempts_heard_of(self) -> list[Row]:
        heard: dict[tuple[str, str, int], int] = {}
        for record in self._metrics:
            identity = (record.project, record.run, record.attempt)
            if identity not in heard:
                heard[identity] = int.from_bytes(record.ts[:8], "little")
        for row in self._rows.get("raw_events", []):
            heard.setdefault((row["project"], row["run"], row["attempt"]), row["ts"])
        return [attempt_row(*identity, ts) for identity, ts in heard.items()]

    def _loaded(self) -> list[Row]:
        return [
            {"topic": topic, "partition": number, "next_offset": offset, "ts": self._until_ms[topic, number]}
            for (topic, number), offset in self.next_offsets.items()
        ]


def _concat(first: pa.Table, second: pa.Table) -> pa.Table:
    return pa.concat_tables([first, second]).unify_dictionaries().combine_chunks()
