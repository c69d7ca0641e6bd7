"""The loader into the real embedded store, and what the views then say."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holter.pipeline.loader.insertion import Backoff
from holter.pipeline.loader.letter_box import LetterBox
from holter.pipeline.loader.loop import Loader, LoopSettings
from holter.pipeline.loader.sink import StoreSink
from holter.pipeline.store.client import connect, runner
from holter.pipeline.store.dsn import DSN_VARIABLE
from holter.pipeline.store.errors import QueryRefused
from holter.pipeline.store.migrate import Migrator, read_migrations
from holter.schemas.commands import Hold
from holter.schemas.control import Action, LrFactor, Rollback
from holter.schemas.decisions import Decision, Option, Outcome
from holter.schemas.signals import Signal
from holter.schemas.telemetry import (
    GRAD_NORM,
    LEARNING_RATE,
    LOSS,
    Ack,
    EffectReport,
    Finished,
    MetricBatch,
    Parent,
    RunEvent,
    SparseColumn,
    Started,
    pack_floats,
    pack_ints,
)
from holter.schemas.topics import BY_NAME, CONTROL, DECISIONS, HOLDS, SIGNALS, TELEMETRY, Topic
from tests.loader.memory_log import START_MS, LogConsumer, MemoryLog, no_publisher
from tests.ports import free_port
from tests.schemas.examples import RECORDS
from tests.store.embedded import EmbeddedStore

pytestmark = pytest.mark.services
REPOSITORY = Path(__file__).parents[2]


def load(store: EmbeddedStore, log: MemoryLog, poll_size: int = 1000) -> None:
    consumer = LogConsumer(log, poll_size)
    settings = LoopSettings(max_rows=500, poll_ms=0)
    loader = Loader(consumer, StoreSink(store.dsn), LetterBox(no_publisher), BY_NAME, settings)
    while consumer.has_more:
        loader.step()
    loader.flush()
    loader.close()


def ask(store: EmbeddedStore, sql: str) -> Sequence[Sequence[Any]]:
    client = connect(store.dsn)
    try:
        return client.query(sql).result_rows  # type: ignore[no-any-return]
    finally:
        client.close()


def batch(run: str, attempt: int, seq: int, steps: Sequence[int], loss: float, **fields: Any) -> MetricBatch:
    columns = {LOSS: [loss] * len(steps), GRAD_NORM: [1.0] * len(steps), LEARNING_RATE: [0.1] * len(steps)}
    packed: dict[str, bytes | SparseColumn] = {name: pack_floats(*values) for name, values in columns.items()}
    times = [START_MS + step for step in steps]
    return MetricBatch("p", run, attempt, 0, "s", seq, pack_ints(*steps), pack_ints(*times), packed, **fields)


def test_a_kill_between_insert_and_commit_and_another_batch_size_count_nothing_twice(
    store: EmbeddedStore, tmp_path: Path
) -> None:
    log = MemoryLog()
    for step in range(400):
        log.append(TELEMETRY, batch("killed", START_MS, step, [step], float(step)), partition=step % 2)
    for number in range(50):
        log.append(SIGNALS, _signal("killed", START_MS, number, "open", f"i{number}"))
    (tmp_path / "log").write_bytes(pickle.dumps(log.messages))
    for poll_size, max_rows, kill_at_commit in ((17, 300, 2), (50, 500, 1), (31, 200, 2)):
        assert _run_loader(store, tmp_path, poll_size, max_rows, kill_at_commit) == -signal.SIGKILL
    assert _run_loader(store, tmp_path, 200, 5000, 0) == 0
    where = "WHERE run = 'killed'"
    assert ask(store, f"SELECT count(), sum(loss), uniqExact(step) FROM steps {where}") == [(400, 79800.0, 400)]
    assert ask(store, f"SELECT count(), uniqExact(metric, step) FROM metrics {where}") == [(1200, 1200)]
    assert ask(store, f"SELECT count() FROM signals {where}") == [(50,)]
    assert ask(store, "SELECT count() FROM raw_steps WHERE run = 'killed'") != [(0,)]
    assert ask(store, "SELECT max(next_offset) FROM loaded WHERE topic = 'holter-telemetry'") == [(200,)]


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    embedded = EmbeddedStore(tmp_path)
    embedded.start(free_port())
    yield embedded
    embedded.close()


def test_a_store_that_is_killed_and_comes_back_loses_and_doubles_nothing(own_store: EmbeddedStore) -> None:
    store, log = own_store, MemoryLog()
    for step in range(600):
        log.append(TELEMETRY, batch("outage", START_MS, step, [step], 1.0))
    settings = LoopSettings(max_rows=100, poll_ms=0, backoff=Backoff(0.05, 0.2))
    consumer = LogConsumer(log, 10)
    loader = Loader(consumer, StoreSink(store.dsn), LetterBox(no_publisher), BY_NAME, settings)
    thread = threading.Thread(target=loader.run, daemon=True)
    thread.start()
    _await(lambda: loader.counts.batches >= 2)
    store.kill()
    _await(lambda: loader.counts.pauses >= 1 or not consumer.has_more)
    store.start(store.dsn.port)
    _await(lambda: loader.counts.records == 600)
    loader.stop.set()
    thread.join(30)
    loader.close()
    assert ask(store, "SELECT count(), uniqExact(step) FROM steps") == [(600, 600)]
    assert ask(store, "SELECT count() FROM metrics") == [(1800,)]


def test_every_example_is_loaded_and_every_view_reads_it(store: EmbeddedStore) -> None:
    log = MemoryLog()
    for topic, record in RECORDS.values():
        log.append(topic, record)
    load(store, log)
    views = ask(store, "SELECT name FROM system.tables WHERE database = 'holter' AND engine = 'View' ORDER BY name")
    counts = {name: ask(store, f"SELECT count() FROM {name}")[0][0] for (name,) in views}
    assert set(counts) >= {"runs", "steps", "windows", "incidents", "signals", "decisions", "actions", "outcomes"}
    assert all(counts.values()), counts
    (effects, before, after, status), *_ = ask(
        store, "SELECT effects, before, after, status FROM actions WHERE project = 'gpt-small'"
    )
    assert effects[:2] == ["rollback", "skip_range"]
    assert (before, after, status) == ([119.0], [99.0], "applied")


def test_bands_and_features_are_read_back(store: EmbeddedStore) -> None:
    log = MemoryLog()
    for name in ("signal", "signal.features", "window_stat", "window_stat.band"):
        log.append(*RECORDS[name])
    load(store, log)
    signals = "SELECT features, band_low, band_high FROM signals WHERE project = 'gpt-small' AND phase != 'close' "
    signals += "ORDER BY step"
    assert repr(ask(store, signals)) == repr([({}, None, None), ({"given_back": 0.25, "log_grad": math.nan}, 2.2, 2.8)])
    windows = "SELECT baseline, band_low, band_high, score FROM windows WHERE project = 'gpt-small' ORDER BY first_step"
    assert ask(store, windows) == [(None,) * 4, (2.55, 2.25, 2.85, 4.5)]


def test_orders_of_people_and_their_answers_are_read_back(store: EmbeddedStore) -> None:
    log = MemoryLog()
    for name in ("decision", "decision.answer", "action", "action.ordered"):
        log.append(*RECORDS[name])
    load(store, log)
    decisions = "SELECT choice, person, answer FROM decisions WHERE project = 'gpt-small' ORDER BY id"
    assert ask(store, decisions) == [("rollback", "", ""), ("approve", "ada", "refused")]
    actions = "SELECT authority FROM actions WHERE project = 'gpt-small' ORDER BY ordinal"
    assert ask(store, actions) == [("run",), ("person",)]


def test_every_column_of_a_view_has_a_comment(store: EmbeddedStore) -> None:
    sql = (
        "SELECT table, name FROM system.columns WHERE database = 'holter' AND comment = '' AND table IN "
        "(SELECT name FROM system.tables WHERE database = 'holter' AND engine = 'View')"
    )
    assert ask(store, sql) == []


def test_non_finite_values_are_stored_as_themselves_with_a_flag(store: EmbeddedStore) -> None:
    log = MemoryLog()
    for step, loss in enumerate((1.0, math.nan, math.inf, -math.inf)):
        log.append(TELEMETRY, batch("nan", START_MS, step, [step], loss))
    load(store, log)
    rows = ask(store, f"SELECT value, is_finite FROM metrics WHERE run = 'nan' AND metric = '{LOSS}' ORDER BY step")
    assert [flag for _, flag in rows] == [True, False, False, False]
    assert repr([value for value, _ in rows]) == "[1.0, nan, inf, -inf]"
    assert ask(store, "SELECT avgIf(value, is_finite) FROM metrics WHERE run = 'nan' AND metric = 'train/loss'") == [
        (1.0,)
    ]
    assert ask(store, "SELECT update_norm FROM steps WHERE run = 'nan' LIMIT 1") == [(None,)]


def test_the_same_step_sent_again_with_a_later_seq_takes_its_place(store: EmbeddedStore) -> None:
    log = MemoryLog()
    log.append(TELEMETRY, batch("again", START_MS, 5, [1], 2.0))
    log.append(TELEMETRY, batch("again", START_MS, 4, [1], 1.0))
    load(store, log)
    assert ask(store, "SELECT loss FROM steps WHERE run = 'again'") == [(2.0,)]


def test_the_surviving_line_leaves_out_what_was_rolled_back(store: EmbeddedStore) -> None:
    """2 leaves 1 after step 5, 3 leaves 2 after step 7; then 4 leaves 1 after step 3, and 2 and 3 are off the line."""
    log = MemoryLog()
    tree: list[tuple[int, Parent | None, range]] = [
        (START_MS, None, range(10)),
        (START_MS + 1000, Parent(START_MS, 5), range(6, 10)),
        (START_MS + 2000, Parent(START_MS + 1000, 7), range(8, 10)),
    ]
    _append_tree(log, "tree", tree)
    load(store, log)
    sql = "SELECT attempt, groupArray(step) FROM (SELECT * FROM surviving_steps WHERE run = 'tree' ORDER BY step) "
    sql += "GROUP BY attempt ORDER BY attempt"
    assert ask(store, sql) == [(1, [0, 1, 2, 3, 4, 5]), (2, [6, 7]), (3, [8, 9])]
    later = MemoryLog()
    _append_tree(later, "tree", [(START_MS + 3000, Parent(START_MS, 3), range(4, 7))])
    load(store, later)
    assert ask(store, sql) == [(1, [0, 1, 2, 3]), (4, [4, 5, 6])]


def test_a_run_tells_its_state_at_a_glance(store: EmbeddedStore) -> None:
    log, who = MemoryLog(), ("p", "glance", START_MS, 0)
    log.append(TELEMETRY, RunEvent(*who, "s", 0, 0, START_MS, Started(config={"lr": 0.1}, allow=["rollback"])))
    log.append(TELEMETRY, batch("glance", START_MS, 1, [1, 2, 3], 2.0))
    log.append(SIGNALS, _signal("glance", START_MS, 2, "open", "one", p_recover=0.3))
    log.append(SIGNALS, _signal("glance", START_MS, 3, "update", "one", p_recover=0.2))
    load(store, log)
    sql = "SELECT status, num_attempts, last_step, last_loss, open_incident, open_kind, num_incidents, num_actions, "
    sql += "is_held"
    assert ask(store, f"{sql} FROM runs WHERE run = 'glance'") == [
        ("running", 1, 3, 2.0, "one", "loss_spike", 1, 0, False)
    ]
    assert ask(store, "SELECT is_open, closed, p_recover_first, p_recover FROM incidents WHERE run = 'glance'") == [
        (True, None, 0.3, 0.2)
    ]
    _append_treatment(log, who)
    load(store, log)
    assert ask(store, f"{sql} FROM runs WHERE run = 'glance'") == [("completed", 2, 5, 1.5, "", "", 1, 1, True)]
    assert ask(store, "SELECT status, result, lost_steps, applied_step FROM actions WHERE run = 'glance'") == [
        ("applied", "recovered", 2, 4)
    ]
    (loaded,) = ask(store, "SELECT loaded_until FROM runs WHERE run = 'glance'")[0]
    assert {"holter-telemetry", "holter-signals", "holter-control"} <= set(loaded)
    assert ask(store, "SELECT choices, actions, state FROM incidents WHERE run = 'glance'") == [
        (["rollback"], ["act"], "rolled_back")
    ]


def test_a_notice_is_among_the_signals_and_no_incident(store: EmbeddedStore) -> None:
    log = MemoryLog()
    log.append(TELEMETRY, batch("noticed", START_MS, 1, [1, 2, 3], 2.0))
    signal = _signal("noticed", START_MS, 3, "close", "own")
    notice = msgspec.structs.replace(signal, id="own", kind="level_shift", severity="info", explanation="a new level")
    log.append(SIGNALS, notice)
    load(store, log)
    assert ask(store, "SELECT kind, since_step, value, baseline, explanation FROM notices WHERE run = 'noticed'") == [
        ("level_shift", 2, 4.0, 2.0, "a new level")
    ]
    assert ask(store, "SELECT count() FROM signals WHERE run = 'noticed'") == [(1,)]
    assert ask(store, "SELECT count() FROM incidents WHERE run = 'noticed'") == [(0,)]
    assert ask(store, "SELECT num_incidents FROM runs WHERE run = 'noticed'") == [(0,)]


def test_the_greatest_and_oddest_values_are_stored_too(store: EmbeddedStore) -> None:
    log, most = MemoryLog(), 2**53
    columns: dict[str, bytes | SparseColumn] = {"\x00'\u2028": pack_floats(5e-324)}
    who = ("pö\\'\"`", "r\u00a0;--", most, 2**20)
    log.append(TELEMETRY, MetricBatch(*who, "s", most, pack_ints(2**63 - 1), pack_ints(2**63 - 1), columns))
    log.append(TELEMETRY, RunEvent(*who, "s", most, most, most, Started(config={"\x00": "\U0001f600"})))
    log.append(TELEMETRY, RunEvent(*who, "s", 1, 1, 0, Finished("failed", "\x00" * 2000)))
    load(store, log)
    assert ask(store, f"SELECT project, step, value FROM metrics WHERE attempt_id = {most}") == [
        (who[0], 2**63 - 1, 5e-324)
    ]
    assert ask(store, f"SELECT count() FROM raw_events WHERE attempt = {most}") == [(2,)]


def test_migrating_by_dsn_is_idempotent(store: EmbeddedStore) -> None:
    migrator = Migrator(runner(store.dsn), "by_dsn", read_migrations())
    assert len(migrator.apply()) == len(read_migrations())
    assert migrator.apply() == migrator.plan() == []


def test_a_store_that_was_not_migrated_is_told_in_one_line(store: EmbeddedStore) -> None:
    store.ask("CREATE DATABASE IF NOT EXISTS bare")
    log = MemoryLog()
    log.append(TELEMETRY, batch("bare", START_MS, 0, [1], 2.0))
    sink = StoreSink(dataclasses.replace(store.dsn, database="bare"))
    loader = Loader(LogConsumer(log, 10), sink, LetterBox(no_publisher), BY_NAME, LoopSettings(poll_ms=0))
    loader.step()
    with pytest.raises(QueryRefused, match="raw_"):
        loader.flush()
    loader.close()


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _run_loader(store: EmbeddedStore, folder: Path, poll_size: int, max_rows: int, kill_at_commit: int) -> int:
    command = [sys.executable, "-m", "tests.loader.loader_process", str(folder / "log"), str(folder / "committed")]
    command += [str(poll_size), str(max_rows), str(kill_at_commit)]
    environ = {**os.environ, DSN_VARIABLE: store.dsn.url}
    return subprocess.run(command, cwd=REPOSITORY, env=environ, timeout=60, check=False).returncode


def _signal(run: str, attempt: int, step: int, phase: Any, incident: str, **fields: Any) -> Signal:
    state: Any = "rolled_back" if phase == "close" else "spike"
    return Signal(
        f"{incident}-{phase}-{step}", "p", run, attempt, 0, step, step, START_MS + step, "loss_spike", "warning", phase,
        incident, state, 2, LOSS, 4.0, 2.0, 9.0, 6.0, 4.0, 1, **fields,
    )  # fmt: skip


def _append_tree(log: MemoryLog, run: str, tree: list[tuple[int, Parent | None, range]]) -> None:
    for attempt, parent, steps in tree:
        started = Started(parent=parent)
        log.append(TELEMETRY, RunEvent("p", run, attempt, 0, "s", 0, max(steps[0] - 1, 0), attempt, started))
        log.append(TELEMETRY, batch(run, attempt, 1, steps, 1.0))


def _append_treatment(log: MemoryLog, who: tuple[str, str, int, int]) -> None:
    project, run, attempt, rank = who
    second = attempt + 500
    records: list[tuple[Topic, msgspec.Struct]] = [
        (DECISIONS, Decision("d", *who, 3, 3, START_MS + 3, "one", "cautious", "auto",
                             [Option("monitor", cost_seconds=9.0), Option("rollback", ["rollback"], 2.0)], "rollback",
                             "it will not heal", 0.2, "act")),
        (CONTROL, Action("act", project, run, attempt, 1, "one", [Rollback("step-1", 1), LrFactor(0.5)], START_MS,
                         START_MS + 9, 3, 9, 3, 1)),
        (TELEMETRY, RunEvent(project, run, second, rank, "s", 0, 1, second, Started(parent=Parent(attempt, 1)))),
        (TELEMETRY, Ack(project, run, second, rank, "s", 1, 4, second, "act", attempt, 1, "applied",
                        effects=[EffectReport("rollback", 3.0, 1.0)])),
        (TELEMETRY, batch(run, second, 2, [2, 3, 4, 5], 1.5)),
        (DECISIONS, Outcome("o", project, run, second, rank, 5, 2, second, "act", "one", "recovered", 4.0, 2.0, 3, 2)),
        (SIGNALS, _signal(run, attempt, 4, "close", "one", p_recover=0.1)),
        (TELEMETRY, RunEvent(project, run, second, rank, "s", 3, 5, second + 9, Finished())),
        (HOLDS, Hold(project, run, "ada", START_MS)),
    ]  # fmt: skip
    for topic, record in records:
        log.append(topic, record)
