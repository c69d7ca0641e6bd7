"""The embedded store over bare HTTP, as curl speaks it."""

from __future__ import annotations

import base64
import json
import socket
import threading
from pathlib import Path

import lz4.frame
import pytest

from tests.store.embedded import EmbeddedStore

pytestmark = pytest.mark.services


@pytest.fixture(autouse=True)
def table(store: EmbeddedStore) -> None:
    sql = "CREATE OR REPLACE TABLE holter.h (a UInt64, s String) ENGINE = MergeTree ORDER BY a"
    assert store.ask(sql).status == 200


def count(store: EmbeddedStore) -> int:
    return int(store.ask("SELECT count() FROM holter.h").body)


def test_a_ping_needs_no_password(store: EmbeddedStore) -> None:
    assert store.ask("", headers={"X-ClickHouse-Key": "wrong"}).body == b"Ok.\n"


@pytest.mark.parametrize("headers", [{"X-ClickHouse-Key": "wrong"}, {"Authorization": "Basic eDp5"}])
def test_a_wrong_password_is_refused(store: EmbeddedStore, headers: dict[str, str]) -> None:
    reply = store.ask("SELECT 1", headers=headers)
    assert (reply.status, reply.code) == (403, "516")
    assert reply.body.startswith(b"Code: 516. DB::Exception: ")


def test_no_password_is_asked_for(store: EmbeddedStore) -> None:
    reply = store.ask("SELECT 1", headers={"X-ClickHouse-User": "", "X-ClickHouse-Key": ""})
    assert (reply.status, reply.headers["WWW-Authenticate"][:5]) == (401, "Basic")


def test_a_basic_login(store: EmbeddedStore) -> None:
    login = base64.b64encode(f"{store.dsn.user}:{store.dsn.password}".encode()).decode()
    headers = {"X-ClickHouse-User": "", "X-ClickHouse-Key": "", "Authorization": f"Basic {login}"}
    assert store.ask("SELECT 1", headers=headers).body == b"1\n"


def test_the_headers_of_an_answer(store: EmbeddedStore) -> None:
    reply = store.ask("SELECT 1 AS x FORMAT JSON", {"query_id": "mine"})
    assert reply.headers["X-ClickHouse-Query-Id"] == "mine"
    assert reply.headers["X-ClickHouse-Format"] == "JSON"
    assert reply.headers["X-ClickHouse-Timezone"]
    assert json.loads(reply.headers["X-ClickHouse-Summary"])["result_rows"] == "1"
    assert json.loads(reply.body)["data"] == [{"x": 1}]


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("SELEC 1", 400, "62"),
        ("SELECT FROM WHERE", 400, "62"),
        ("SELECT 1; SELECT 2", 400, "62"),
        ("SELECT * FROM nowhere", 404, "60"),
        ("SELECT nope", 404, "47"),
        ("SELECT * FROM file('/etc/passwd')", 403, "497"),
        ("SELECT * FROM '/etc/hostname'", 404, "60"),
        ("SELECT * FROM default.`/etc/hostname`", 404, "60"),
        ("SELECT 1 INTO OUTFILE '/tmp/never'", 403, "497"),
    ],
)
def test_errors_have_their_code_and_status(store: EmbeddedStore, sql: str, status: int, code: str) -> None:
    reply = store.ask(sql)
    assert (reply.status, reply.code) == (status, code)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT arrayMap(file, ['/etc/passwd'])",
        "SELECT * APPLY file FROM (SELECT '/etc/passwd' AS path)",
        "SELECT file\u00a0('/etc/passwd')",
        "SELECT `fi\\x6ce`('/etc/passwd')",
        "SELECT * FROM format(JSONEachRow, 'a String, b String DEFAULT file(\\'/etc/passwd\\')', '{\"a\": \"\"}')",
        "SELECT 1 FORMAT Template SETTINGS format_template_row = '/etc/passwd'",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM default.`/etc/passwd`",
        "SELECT * FROM loop(default, '/etc/passwd')",
        "SELECT * FROM merge('default', 'passwd')",
        "SELECT 1 // ' \n , file('/etc/passwd') -- '",
        "SELECT 1 /* /* */ ' */ , file('/etc/passwd') -- '",
        "SELECT $a$ ' $a$, file('/etc/passwd') -- '",
        "SELECT 1 # ' \n , file('/etc/passwd') -- '",
        "CREATE FUNCTION reads AS path -> arrayMap(file, [path])",
    ],
)
def test_no_file_of_the_machine_can_be_read(store: EmbeddedStore, sql: str) -> None:
    reply = store.ask(sql)
    assert b"root:" not in reply.body
    assert reply.status != 200


def test_an_identifier_parameter_names_no_file(store: EmbeddedStore) -> None:
    assert store.ask("SELECT * FROM {t:Identifier}", {"param_t": "/etc/hostname"}).code == "60"


def test_get_only_reads(store: EmbeddedStore) -> None:
    assert store.ask("SELECT 1", method="GET").body == b"1\n"
    assert store.ask("DROP TABLE holter.h", method="GET").code == "164"
    assert store.ask("SELECT 1", {"readonly": "0"}, method="GET").body == b"1\n"
    assert store.ask("INSERT INTO holter.h VALUES (1, 'a')", method="GET").code == "164"
    assert count(store) == 0


def test_a_reading_request_stays_one_in_a_session(store: EmbeddedStore) -> None:
    session = {"session_id": "reading"}
    assert store.ask("DROP TABLE holter.h", {**session, "readonly": "2"}).code == "164"
    assert store.ask("INSERT INTO holter.h VALUES (1, 'a')", session).status == 200


def test_limits_hold_and_cannot_be_lifted(store: EmbeddedStore) -> None:
    endless = "SELECT sum(number) FROM numbers(1000000000000)"
    assert store.ask(endless, {"max_execution_time": "1"}).code == "159"
    assert store.ask("SELECT number FROM numbers(9)", {"max_result_rows": "5"}).code == "396"
    assert store.ask("SELECT 1", {"max_execution_time": "0"}).code == "452"
    assert store.ask("SELECT 1 SETTINGS max_result_rows = 999999999999").code == "452"
    memory = "SELECT value FROM system.settings WHERE name = 'max_memory_usage'"
    assert int(store.ask(memory).body) > 0
    assert int(store.ask(memory, {"session_id": "limits"}).body) > 0


def test_a_truncated_body_adds_nothing(store: EmbeddedStore) -> None:
    whole = b"".join(b"%d\tx\n" % number for number in range(1000))
    sql = "INSERT INTO holter.h FORMAT TSV"
    packed = lz4.frame.compress(whole)
    assert store.ask(sql, body=packed[:-7], headers={"Content-Encoding": "lz4"}).code == "271"
    assert store.ask(sql, body=whole + b"12").status == 400
    _send_and_leave(store, sql, whole)
    assert count(store) == 0
    assert store.ask(sql, body=whole).status == 200
    assert count(store) == 1000


def test_every_frame_is_stored(store: EmbeddedStore) -> None:
    frames = b"".join(lz4.frame.compress(b"%d\tx\n" % number) for number in range(50))
    reply = store.ask("INSERT INTO holter.h FORMAT TSV", body=frames, headers={"Content-Encoding": "lz4"})
    assert json.loads(reply.headers["X-ClickHouse-Summary"])["written_rows"] == "50"
    assert count(store) == 50


def test_a_token_makes_a_repeated_insert_one(store: EmbeddedStore) -> None:
    store.ask("CREATE OR REPLACE TABLE holter.d (a Int8) ENGINE = MergeTree ORDER BY a "
              "SETTINGS non_replicated_deduplication_window = 10")  # fmt: skip
    for token in ("one", "one", "two"):
        store.ask("INSERT INTO holter.d VALUES (1)", {"insert_deduplication_token": token})
    assert store.ask("SELECT count() FROM holter.d").body == b"2\n"


def test_a_busy_session_is_locked(store: EmbeddedStore) -> None:
    session = {"session_id": "busy"}
    slow = threading.Thread(target=lambda: store.ask("SELECT sleep(3)", session))
    slow.start()
    while b"sleep" not in store.ask("SELECT query FROM system.processes").body:
        assert slow.is_alive()
    assert store.ask("SELECT 1", session).code == "373"
    slow.join()
    assert store.ask("SELECT 1", session).body == b"1\n"


def test_a_session_that_must_exist(store: EmbeddedStore) -> None:
    assert store.ask("SELECT 1", {"session_id": "never", "session_check": "1"}).code == "372"


def test_an_error_in_a_stream_is_tagged_and_the_connection_cut(store: EmbeddedStore) -> None:
    with socket.create_connection((store.dsn.host, store.dsn.port), 10) as connection:
        # Small blocks: the engine reads ahead, and what fails before the first piece is sent is a plain error.
        sql = b"SELECT throwIf(number = 250000), number FROM numbers(400000) SETTINGS max_threads=1, max_block_size=100"
        head = f"POST / HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: {store.dsn.user}\r\nX-ClickHouse-Key: " \
               f"{store.dsn.password}\r\nContent-Length: {len(sql)}\r\n\r\n"  # fmt: skip
        connection.sendall(head.encode() + sql)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    headers, _, body = answer.partition(b"\r\n\r\n")
    tag = headers.partition(b"X-ClickHouse-Exception-Tag: ")[2][:16]
    assert b"__exception__\r\n" + tag + b"\r\nCode: 395" in body
    assert tag + b"\r\n__exception__\r\n" in body[-100:]
    assert not body.endswith(b"0\r\n\r\n")


def test_plans_and_other_statements_have_results_too(store: EmbeddedStore) -> None:
    for sql in ("EXPLAIN SELECT 1", "SHOW TABLES FROM holter", "DESCRIBE TABLE holter.h", "EXISTS TABLE holter.h"):
        reply = store.ask(sql)
        assert (reply.status, bool(reply.body)) == (200, True)
        assert reply.headers["X-ClickHouse-Format"] == "TabSeparated"


def test_a_second_owner_is_told_who_owns_the_folder(store: EmbeddedStore, tmp_path: Path) -> None:
    second = EmbeddedStore(store.credentials_file.parent)
    with pytest.raises(AssertionError, match="another process owns"):
        second.start()
    assert store.ask("SELECT 1").body == b"1\n"


def _send_and_leave(store: EmbeddedStore, sql: str, body: bytes) -> None:
    """Announces more than is sent, then hangs up."""
    query = sql.replace(" ", "+")
    with socket.create_connection((store.dsn.host, store.dsn.port), 10) as connection:
        head = f"POST /?query={query} HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: {store.dsn.user}\r\n" \
               f"X-ClickHouse-Key: {store.dsn.password}\r\nContent-Length: {len(body) + 1}\r\n\r\n"  # fmt: skip
        connection.sendall(head.encode() + body)
        connection.shutdown(socket.SHUT_WR)
        assert b"33" in connection.recv(65536)
