"""The batches of the loader against the tables of the migrations, without a store."""

from __future__ import annotations

import re

import pytest

from holter.pipeline.loader.schemas import SCHEMAS
from holter.pipeline.store.migrate import read_migrations

_CREATED = re.compile(r"CREATE TABLE IF NOT EXISTS \{database\}\.(\w+)\s*\(\n(.*?)\n\)\nENGINE", re.DOTALL)
_ALTERED = re.compile(r"ALTER TABLE \{database\}\.(\w+)\n(.*?);", re.DOTALL)
_ADDED = re.compile(r"ADD COLUMN IF NOT EXISTS (\w+)")


def columns() -> dict[str, list[str]]:
    """The columns that are written, by table."""
    found: dict[str, list[str]] = {}
    for migration in read_migrations():
        for table, body in _CREATED.findall(migration.sql):
            lines = [line.strip() for line in body.splitlines() if "MATERIALIZED" not in line]
            found[table] = [line.split()[0] for line in lines if "DEFAULT now64" not in line]
        for table, body in _ALTERED.findall(migration.sql):
            found[table] += _ADDED.findall(body)
    return found


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_batch_has_every_column_of_its_table(table: str) -> None:
    assert sorted(SCHEMAS[table].names) == sorted(columns()[table])


def test_every_table_has_a_batch() -> None:
    assert set(columns()) == set(SCHEMAS)
