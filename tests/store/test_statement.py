from __future__ import annotations

import pytest

from holter.pipeline.store.errors import QueryRefused
from holter.pipeline.store.statement import parse, split_statements, tokens_of


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        (b"select 1", "SELECT"),
        (b"-- note\n/* a /* nested */ b */ (SELECT 1)", "SELECT"),
        (b"# shell comment\nWITH 1 AS x SELECT x", "WITH"),
        (b"// note\nSHOW TABLES", "SHOW"),
        (b"  ", ""),
    ],
)
def test_kind_is_the_first_word_outside_comments(sql: bytes, kind: str) -> None:
    assert parse(sql).kind == kind


@pytest.mark.parametrize(
    ("sql", "output_format"),
    [
        (b"SELECT 1 FORMAT JSON", "JSON"),
        (b"SELECT 1 FORMAT JSON;", "JSON"),
        (b"SELECT 1 FORMAT CSV SETTINGS max_threads = 1", "CSV"),
        (b"SELECT format FROM t", None),
        (b"SELECT 'FORMAT JSON'", None),
        (b"SELECT x AS format", None),
    ],
)
def test_output_format_is_the_closing_clause(sql: bytes, output_format: str | None) -> None:
    assert parse(sql).output_format == output_format


@pytest.mark.parametrize(
    ("sql", "text", "data", "data_format"),
    [
        (b"INSERT INTO t FORMAT Native\n\x00\x01", b"INSERT INTO t ", b"\x00\x01", "Native"),
        (b"INSERT INTO t (a, format) FORMAT TSV 1\t2", b"INSERT INTO t (a, format) ", b"1\t2", "TSV"),
        (b"INSERT INTO t VALUES (1, ';')", b"INSERT INTO t ", b" (1, ';')", "Values"),
        (b"INSERT INTO values VALUES (1)", b"INSERT INTO values ", b" (1)", "Values"),
        (b"INSERT INTO d.format FORMAT CSV\n1", b"INSERT INTO d.format ", b"1", "CSV"),
        (b"INSERT INTO t SETTINGS a = 1 FORMAT CSV\r\n1", b"INSERT INTO t SETTINGS a = 1 ", b"1", "CSV"),
        (b"INSERT INTO t FORMAT Values (1)", b"INSERT INTO t ", b"(1)", "Values"),
        (b"INSERT INTO t FORMAT TSV\n", b"INSERT INTO t ", b"", "TSV"),
    ],
)
def test_the_data_of_an_insert_begins_after_its_format(sql: bytes, text: bytes, data: bytes, data_format: str) -> None:
    statement = parse(sql)
    assert (statement.text, statement.data, statement.data_format) == (text, data, data_format)


@pytest.mark.parametrize("sql", [b"INSERT INTO t SELECT 1", b"INSERT INTO t WITH 1 AS x SELECT x", b"SELECT 1"])
def test_other_statements_have_no_data(sql: bytes) -> None:
    assert parse(sql).data is None


@pytest.mark.parametrize("sql", [b"SELECT 1; SELECT 2", b"SELECT 'a", b"SELECT `a", b"/* open", b'SELECT "x'])
def test_several_statements_and_open_quotes_are_syntax_errors(sql: bytes) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse(sql)
    assert refused.value.code == 62


def test_strings_and_quoted_names_hide_their_content() -> None:
    sql = r"""SELECT 'it''s \' ; ', `a``b`, "c "" d", $$ ; ' $$, $x$ ; $x$, ‘;’, “e;f”""".encode()
    kinds = [token.kind for token in tokens_of(sql) if token.text != b","]
    assert kinds == ["word", "string", "quoted", "quoted", "string", "string", "string", "quoted"]


def test_a_no_break_space_separates() -> None:
    assert [token.text for token in tokens_of("file\u00a0(1)".encode())] == [b"file", b"(", b"1", b")"]


def test_a_script_is_cut_at_semicolons_outside_quotes() -> None:
    script = b"-- first\nSELECT ';';\n\n-- only a comment\n;SELECT 2 /* ; */"
    assert split_statements(script) == [b"-- first\nSELECT ';'", b"SELECT 2 /* ; */"]
