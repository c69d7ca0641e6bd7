"""Start, stop and kill of the embedded store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.embedded import EmbeddedStore

pytestmark = pytest.mark.services


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    embedded = EmbeddedStore(tmp_path)
    embedded.start()
    yield embedded
    embedded.close()


def test_what_is_stored_outlives_a_restart_and_migrations_run_once(store: EmbeddedStore) -> None:
    store.ask("CREATE TABLE holter.kept (a Int64) ENGINE = MergeTree ORDER BY a")
    store.ask("INSERT INTO holter.kept VALUES (1)")
    assert store.stop() == 0
    store.start()
    assert store.ask("SELECT count() FROM holter.kept").body == b"1\n"
    assert store.log.count("applied migration 0001") == 1


def test_stopping_waits_for_what_runs(store: EmbeddedStore) -> None:
    answers: list[bytes] = []
    slow = threading.Thread(target=lambda: answers.append(store.ask("SELECT sleep(3), 7").body))
    slow.start()
    while b"sleep" not in store.ask("SELECT query FROM system.processes").body.replace(b"system.processes", b""):
        assert slow.is_alive()
    assert store.stop() == 0
    slow.join()
    assert answers == [b"0\t7\n"]


def test_a_kill_loses_no_acknowledged_row(store: EmbeddedStore) -> None:
    store.ask("CREATE TABLE holter.rows (writer Int64, batch Int64) ENGINE = MergeTree ORDER BY (writer, batch)")
    acknowledged: list[tuple[int, int]] = []
    writers = [threading.Thread(target=_write, args=(store, number, acknowledged)) for number in range(3)]
    for writer in writers:
        writer.start()
    while len(acknowledged) < 60:
        assert any(writer.is_alive() for writer in writers)
    store.kill()
    for writer in writers:
        writer.join()
    store.start()
    stored = store.ask("SELECT writer, batch, count() FROM holter.rows GROUP BY ALL").body.decode().splitlines()
    rows = {(int(writer), int(batch)): int(number) for writer, batch, number in (line.split() for line in stored)}
    assert set(acknowledged) <= set(rows)
    assert set(rows.values()) == {100}, "a batch is stored whole or not at all"


def _write(store: EmbeddedStore, writer: int, acknowledged: list[tuple[int, int]]) -> None:
    """Batches of 100 equal rows until the store is gone."""
    for batch in range(10_000):
        body = b"%d\t%d\n" % (writer, batch) * 100
        try:
            reply = store.ask("INSERT INTO holter.rows FORMAT TSV", body=body)
        except OSError:
            return
        if reply.status == 200:
            acknowledged.append((writer, batch))
