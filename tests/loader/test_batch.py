from __future__ import annotations

import pytest

from holter.pipeline.loader.batch import Batch
from holter.pipeline.loader.schemas import SCHEMAS
from holter.schemas import encode
from holter.schemas.control import Health
from holter.schemas.telemetry import Heartbeat, MetricBatch, RunEvent, Started, pack_floats, pack_ints
from holter.schemas.topics import BY_NAME, CONTROL, DLQ, HOLDS, RANKS, TELEMETRY
from tests.loader.memory_log import START_MS, MemoryLog
from tests.schemas.examples import RECORDS

WHO = ("gpt", "night", 1, 0, "s")


def batch_of(log: MemoryLog) -> Batch:
    batch = Batch(BY_NAME)
    for messages in log.messages.values():
        batch.add_all(messages, START_MS)
    return batch


@pytest.mark.parametrize("name", RECORDS)
def test_every_kind_of_record_has_a_table(name: str) -> None:
    log = MemoryLog()
    topic, record = RECORDS[name]
    log.append(topic, record)
    batch = batch_of(log)
    tables = batch.tables()
    assert set(tables) - {"raw_loaded", "raw_attempts"}
    assert all(rows.schema.names == SCHEMAS[table].names for table, rows in tables.items())
    assert not batch.dead_letters


def test_a_signal_keeps_its_band_and_its_features() -> None:
    log = MemoryLog()
    log.append(*RECORDS["signal.features"])
    (row,) = batch_of(log).tables()["raw_signals"].to_pylist()
    assert (row["band_low"], row["band_high"], row["moved"]) == (2.2, 2.8, [("base", 2.2)])
    assert [name for name, _ in row["features"]] == ["given_back", "log_grad"]


@pytest.mark.parametrize("name", ["decision.answer", "action.ordered", "window_stat.band", "signal.features"])
def test_no_field_of_a_record_is_lost_on_the_way_to_its_table(name: str) -> None:
    log = MemoryLog()
    topic, record = RECORDS[name]
    log.append(topic, record)
    (table,) = set(batch_of(log).tables()) - {"raw_loaded", "raw_attempts"}
    assert set(record.__struct_fields__) - {"v"} <= set(SCHEMAS[table].names)


def test_evaluations_are_metrics_too() -> None:
    log = MemoryLog()
    log.append(*RECORDS["run_event.eval"])
    rows = batch_of(log).tables()["raw_metrics"].to_pylist()
    assert [(row["metric"], row["split"]) for row in rows] == [("eval/loss", "eval"), ("eval/accuracy", "eval")]


def test_an_attempt_is_known_by_its_start_or_by_anything_of_it() -> None:
    log = MemoryLog()
    log.append(TELEMETRY, MetricBatch(*WHO, 5, pack_ints(7), pack_ints(1000), {"m/a": pack_floats(1.0)}))
    log.append(TELEMETRY, RunEvent(*WHO, 0, 0, 900, Started(host="h")))
    log.append(TELEMETRY, RunEvent("gpt", "night", 2, 0, "s", 0, 0, 950, Heartbeat("train")))
    rows = batch_of(log).tables()["raw_attempts"].to_pylist()
    found = {(row["attempt"], row["is_started"], row["host"]) for row in rows}
    assert found == {(1, 0, ""), (1, 1, "h"), (2, 0, "")}


def test_a_control_record_is_kept_with_the_name_of_its_key() -> None:
    log = MemoryLog()
    log.append(CONTROL, Health("h", "gpt", "night", 1, "step-9", 9, 1000, 3, 7))
    assert batch_of(log).tables()["raw_health"].to_pylist()[0]["key_id"] == "issuer-1"


@pytest.mark.parametrize(
    ("topic", "key", "value", "reason"),
    [
        (TELEMETRY, b"gpt/night", b"\xc1", "malformed"),
        (TELEMETRY, b"gpt/night", None, "malformed"),
        (TELEMETRY, b"other/run", encode(RunEvent(*WHO, 0, 0, 1, Heartbeat("train"))), "wrong_key"),
        (TELEMETRY, None, encode(RunEvent(*WHO, 0, 0, 1, Heartbeat("train"))), "wrong_key"),
        (CONTROL, b"gpt/night", encode(Health("h", "gpt", "night", 1, "c", 9, 1, 3, 7)), "malformed"),
        (TELEMETRY, b"gpt/night", b"x" * 300_000, "oversized"),
    ],
)
def test_what_cannot_be_read_is_set_aside_with_its_reason(
    topic: object, key: bytes | None, value: bytes | None, reason: str
) -> None:
    log = MemoryLog()
    log.append_raw(topic.name, key, value)  # type: ignore[attr-defined]
    batch = batch_of(log)
    (letter,) = batch.dead_letters
    assert (letter.reason, letter.num_bytes, letter.value) == (reason, len(value or b""), value or b"")
    assert (letter.topic, letter.partition, letter.offset) == (topic.name, 0, 0)  # type: ignore[attr-defined]
    assert set(batch.tables()) == {"raw_loaded"}


def test_a_tombstone_is_no_mistake() -> None:
    log = MemoryLog()
    log.append_raw(HOLDS.name, b"gpt/night", None)
    batch = batch_of(log)
    assert not batch.dead_letters
    assert batch.next_offsets == {(HOLDS.name, 0): 1}


def test_a_dead_letter_that_cannot_be_read_is_only_counted() -> None:
    log = MemoryLog()
    log.append_raw(DLQ.name, b"", b"\xc1")
    batch = batch_of(log)
    assert (batch.dead_letters, batch.num_unreadable_dead_letters) == ([], 1)


def test_the_key_of_another_rank_ends_with_the_rank() -> None:
    log = MemoryLog()
    log.append(RANKS, MetricBatch("gpt", "night", 1, 3, "s", 5, pack_ints(7), pack_ints(1000), {}))
    assert not batch_of(log).dead_letters


def test_how_far_each_partition_was_read_comes_last() -> None:
    log = MemoryLog()
    for partition in (0, 0, 1):
        log.append(*RECORDS["signal"], partition=partition)
    tables = batch_of(log).tables()
    assert list(tables)[-1] == "raw_loaded"
    loaded = {(row["partition"], row["next_offset"]) for row in tables["raw_loaded"].to_pylist()}
    assert loaded == {(0, 2), (1, 1)}


def test_nothing_read_is_nothing_to_insert() -> None:
    batch = Batch(BY_NAME)
    batch.add_all([], 0)
    assert not batch
