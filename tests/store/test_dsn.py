from __future__ import annotations

import pytest

from holter.pipeline.store.dsn import Dsn, parse_dsn
from holter.pipeline.store.errors import InvalidDsn


def test_a_dsn_is_parsed_and_its_url_parses_back() -> None:
    dsn = parse_dsn("clickhouse://me:p%40ss%2F@db.example:8443/runs?secure=true")
    assert dsn == Dsn("db.example", 8443, "me", "p@ss/", "runs", secure=True)
    assert parse_dsn(dsn.url) == dsn


@pytest.mark.parametrize(
    ("text", "port", "secure"),
    [("clickhouse://h", 8123, False), ("clickhouse://h?secure=1", 8443, True), ("https://h", 8443, True)],
)
def test_defaults(text: str, port: int, secure: bool) -> None:
    assert parse_dsn(text) == Dsn("h", port, "default", "", "holter", secure)


def test_the_password_is_in_neither_str_nor_repr() -> None:
    dsn = parse_dsn("clickhouse://me:secret@[::1]:8123/holter")
    assert "secret" not in f"{dsn} {dsn!r}"
    assert dsn.is_loopback


@pytest.mark.parametrize("text", ["", "secret", "postgres://me:secret@h/d", "clickhouse://me:secret@h:port/d",
                                  "clickhouse://me:secret@h/d?mode=x", "clickhouse://"])  # fmt: skip
def test_what_is_no_dsn_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(InvalidDsn) as refused:
        parse_dsn(text)
    assert "secret" not in str(refused.value)
