"""Numbered, immutable migrations, for the embedded store and for any server.

A file `NNNN_name.sql` holds statements separated by `;`. Once applied it never changes: its checksum is kept beside
its number in the table `migrations`, and a changed, missing, doubled or left-out number is refused. Statements are
written so that applying one twice is harmless (`IF NOT EXISTS`, `CREATE OR REPLACE VIEW`), since ClickHouse has no
transaction that would tie a statement to the note that it was applied.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holter.pipeline.store.errors import MigrationError
from holter.pipeline.store.statement import split_statements

FOLDER = Path(__file__).parent / "migrations"
_FILE_NAME = re.compile(r"\A(\d{4})_([a-z0-9_]+)\.sql\Z")
_DATABASE_NAME = re.compile(r"\A[A-Za-z_]\w{0,63}\Z", re.ASCII)

Run = Callable[[str], bytes]
"""Runs one statement and returns its result as TabSeparated; raises ``StoreError``."""


@dataclass(frozen=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def statements(self) -> list[str]:
        return [statement.decode() for statement in split_statements(self.sql.encode())]


def read_migrations(folder: Path = FOLDER) -> list[Migration]:
    """The migrations of a folder in their order.

    Raises:
        MigrationError: a file is misnamed, or numbers are doubled or left out.
    """
    migrations = [_read(path) for path in sorted(folder.glob("*.sql"))]
    for expected, migration in enumerate(migrations, 1):
        if migration.number != expected:
            problem = "doubled" if migration.number < expected else f"left out before {migration.name}"
            raise MigrationError(f"migration number {min(migration.number, expected):04d} is {problem} in {folder}")
    return migrations


class Migrator:
    """Brings one database to the newest migration. One process at a time per database."""

    def __init__(self, run: Run, database: str, migrations: Sequence[Migration]) -> None:
        if not _DATABASE_NAME.match(database):
            raise MigrationError(f"{database!r} is no name of a database: letters, digits and '_'")
        self._run = run
        self._database = database
        self._migrations = migrations

    def plan(self) -> list[Migration]:
        """What would be applied; changes nothing.

        Raises:
            MigrationError: what was applied before is not what the files say.
        """
        applied = self._applied()
        known = {migration.number: migration for migration in self._migrations}
        for number, (name, checksum) in applied.items():
            migration = known.get(number)
            if migration is None:
                raise MigrationError(f"the store has migration {number:04d}_{name}, which this version does not know: "
                                     "use a newer version")  # fmt: skip
            if migration.checksum != checksum:
                raise MigrationError(f"migration {number:04d}_{name} was changed after it had been applied: "
                                     "restore it and add a new one")  # fmt: skip
        return [migration for migration in self._migrations if migration.number not in applied]

    def script(self) -> list[str]:
        """Every statement that ``apply`` would run, in order."""
        pending = self.plan()
        return [*self._preparation(), *(line for migration in pending for line in self._statements(migration))]

    def apply(self) -> list[Migration]:
        """Applies what is pending, and returns it.

        Raises:
            MigrationError: see ``plan``.
            StoreError: a statement failed; those before it hold, and the next call goes on from there.
        """
        pending = self.plan()
        for statement in self._preparation():
            self._run(statement)
        for migration in pending:
            for statement in self._statements(migration):
                self._run(statement)
        return pending

    def _preparation(self) -> list[str]:
        return [
            f"CREATE DATABASE IF NOT EXISTS {self._database} ENGINE = Atomic",
            f"CREATE TABLE IF NOT EXISTS {self._database}.migrations (number UInt32, name String, checksum String, "
            "applied_at DateTime64(3, 'UTC') DEFAULT now64(3)) ENGINE = ReplacingMergeTree ORDER BY number",
        ]

    def _statements(self, migration: Migration) -> list[str]:
        """Its statements with the database named, then the note that it was applied."""
        named = [statement.replace("{database}", self._database) for statement in migration.statements]
        note = (
            f"INSERT INTO {self._database}.migrations (number, name, checksum) "
            f"VALUES ({migration.number}, '{migration.name}', '{migration.checksum}')"
        )
        return [*named, note]

    def _applied(self) -> dict[int, tuple[str, str]]:
        exists = self._run(
            f"SELECT count() FROM system.tables WHERE database = '{self._database}' AND name = 'migrations'"
        )  # fmt: skip
        if exists.strip() == b"0":
            return {}
        rows = self._run(f"SELECT number, name, checksum FROM {self._database}.migrations FINAL ORDER BY number")
        fields = (line.split("\t") for line in rows.decode().splitlines())
        return {int(number): (name, checksum) for number, name, checksum in fields}


def _read(path: Path) -> Migration:
    found = _FILE_NAME.match(path.name)
    if found is None:
        raise MigrationError(f"{path} must be named NNNN_name.sql")
    return Migration(int(found[1]), found[2], path.read_text(encoding="utf-8"))
