from __future__ import annotations

from pathlib import Path

import pytest

from holter.pipeline.store.errors import MigrationError
from holter.pipeline.store.migrate import Migration, Migrator, read_migrations


class FakeServer:
    """Keeps the notes of applied migrations, and every statement."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.notes: list[str] = []

    def run(self, sql: str) -> bytes:
        self.statements.append(sql)
        if "system.tables" in sql:
            return b"1\n" if self.notes else b"0\n"
        if sql.startswith("SELECT number"):
            return "".join(self.notes).encode()
        if "INSERT INTO d.migrations" in sql:
            values = sql.partition("VALUES (")[2].rstrip(")").replace("'", "")
            self.notes.append("\t".join(values.split(", ")) + "\n")
        return b""


FIRST = Migration(1, "tables", "CREATE TABLE {database}.a (x Int8);\nCREATE TABLE {database}.b (x Int8);")
SECOND = Migration(2, "views", "-- why\nCREATE OR REPLACE VIEW {database}.v AS SELECT 1;")


def test_apply_runs_what_is_pending_once() -> None:
    server = FakeServer()
    assert Migrator(server.run, "d", [FIRST]).apply() == [FIRST]
    assert Migrator(server.run, "d", [FIRST, SECOND]).apply() == [SECOND]
    assert Migrator(server.run, "d", [FIRST, SECOND]).plan() == []
    assert [sql for sql in server.statements if "TABLE d.a" in sql] == ["CREATE TABLE d.a (x Int8)"]


def test_a_dry_run_prints_every_statement_and_changes_nothing() -> None:
    server = FakeServer()
    script = Migrator(server.run, "d", [FIRST, SECOND]).script()
    assert not server.notes
    Migrator(server.run, "d", [FIRST, SECOND]).apply()
    assert [sql for sql in server.statements if not sql.startswith("SELECT")] == script


def test_a_changed_migration_is_refused() -> None:
    server = FakeServer()
    Migrator(server.run, "d", [FIRST]).apply()
    with pytest.raises(MigrationError, match="0001_tables was changed"):
        Migrator(server.run, "d", [Migration(1, "tables", "SELECT 2")]).apply()


def test_a_store_of_a_newer_version_is_refused() -> None:
    server = FakeServer()
    Migrator(server.run, "d", [FIRST, SECOND]).apply()
    with pytest.raises(MigrationError, match="newer version"):
        Migrator(server.run, "d", [FIRST]).plan()


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["0001_a.sql", "0001_b.sql"], "0001 is doubled"),
        (["0001_a.sql", "0003_b.sql"], "0002 is left out"),
        (["0002_a.sql"], "0001 is left out"),
        (["one.sql"], "NNNN_name"),
    ],
)
def test_doubled_left_out_and_misnamed_numbers_are_refused(tmp_path: Path, names: list[str], problem: str) -> None:
    for name in names:
        (tmp_path / name).write_text("SELECT 1")
    with pytest.raises(MigrationError, match=problem):
        read_migrations(tmp_path)


def test_the_name_of_the_database_is_checked() -> None:
    with pytest.raises(MigrationError):
        Migrator(FakeServer().run, "d; DROP", [])


def test_the_migrations_of_this_version_are_in_order() -> None:
    migrations = read_migrations()
    assert [migration.number for migration in migrations] == list(range(1, len(migrations) + 1))
    assert all(migration.statements for migration in migrations)
