from __future__ import annotations

import pytest

from holter.pipeline.store.errors import QueryRefused
from holter.pipeline.store.guard import Guard
from holter.pipeline.store.statement import parse

GUARD = Guard(
    table_functions=frozenset({"file", "url", "s3", "executable", "remote", "numbers", "format", "values", "eval"}),
    ceilings={"max_execution_time": 60},
    functions=frozenset({"aigenerate"}),
)

FORBIDDEN = [
    "SELECT * FROM file('/etc/passwd')",
    "SELECT file('/etc/passwd')",
    "SELECT * FROM `file` /* */ ('/etc/passwd')",
    "SELECT * FROM \"url\"('http://localhost')",
    "SELECT * FROM `fi\\x6ce`('/etc/passwd')",
    "SELECT * FROM url\u00a0('http://localhost')",
    "SELECT * FROM URL('http://localhost')",
    "SELECT arrayMap(file, ['/etc/passwd'])",
    "SELECT * APPLY file FROM t",
    "SELECT aiGenerate('x')",
    "SELECT format(JSONEachRow, 'a String DEFAULT file(x)', '{}')",
    "SELECT 1 INTO OUTFILE '/tmp/x'",
    "INSERT INTO t FROM INFILE '/etc/passwd' FORMAT CSV",
    "INSERT INTO FUNCTION s3('x') SELECT 1",
    "INSERT INTO t VALUES (file('/etc/passwd'))",
    "INSERT INTO t FORMAT Values (file('/etc/passwd'))",
    "CREATE TABLE t (a Int8) ENGINE = File(CSV)",
    "CREATE TABLE t (a Int8) ENGINE URL('http://localhost')",
    "CREATE TABLE t (a Int8) ENGINE = `S3`('x')",
    "CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local, path = '/')",
    "CREATE DATABASE d ENGINE = Filesystem('/etc')",
    "CREATE DICTIONARY d (a Int8) PRIMARY KEY a SOURCE(EXECUTABLE(COMMAND 'id' FORMAT TSV)) LAYOUT(FLAT())",
    "CREATE USER u",
    "CREATE NAMED COLLECTION c AS a = 1",
    "SYSTEM SHUTDOWN",
    "ATTACH TABLE t FROM '/etc' (a Int8) ENGINE = Log",
    "BACKUP TABLE t TO Disk('d', 'x')",
    "SET dialect = 'kusto'",
    "SELECT 1 SETTINGS dialect = 'prql'",
    "SELECT 1 FORMAT Template SETTINGS format_template_row = '/etc/passwd'",
    "SELECT 1 SETTINGS additional_result_filter = 'file(1)'",
    "SELECT * FROM (EXPLAIN SELECT * FROM file('/etc/passwd'))",
    "CREATE VIEW v AS SELECT * FROM remote('h', 'd.t')",
]

ALLOWED = [
    "SELECT 'file(1)', number FROM numbers(3) -- url('x')",
    "SELECT url, s3 FROM t WHERE remote = 1",
    "SELECT formatDateTime(now(), '%F')",
    "CREATE TABLE t (a Int8) ENGINE = ReplacingMergeTree(a) ORDER BY a",
    "CREATE MATERIALIZED VIEW v ENGINE = AggregatingMergeTree ORDER BY a AS SELECT a FROM t",
    "CREATE DATABASE d ENGINE = Atomic",
    "SELECT name, engine FROM system.tables WHERE engine = 'File'",
    "INSERT INTO t VALUES ('file(1)')",
    "SET max_execution_time = 5",
    "",
]


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_what_reaches_outside_is_refused(sql: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        GUARD.check(parse(sql.encode()))
    assert refused.value.code == 497


@pytest.mark.parametrize("sql", ALLOWED)
def test_what_stays_inside_is_allowed(sql: str) -> None:
    GUARD.check(parse(sql.encode()))


@pytest.mark.parametrize("value", ["0", "61", "-1", "1e9", "DEFAULT", "5.9e9"])
def test_a_limit_cannot_be_lifted(value: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        GUARD.check(parse(f"SELECT 1 SETTINGS max_execution_time = {value}".encode()))
    assert refused.value.code == 452


def test_settings_of_a_url_are_held_to_the_same() -> None:
    GUARD.check_settings({"max_execution_time": "60", "max_threads": "1"})
    with pytest.raises(QueryRefused):
        GUARD.check_settings({"max_execution_time": "0"})
    with pytest.raises(QueryRefused):
        GUARD.check_settings({"dialect": "prql"})
