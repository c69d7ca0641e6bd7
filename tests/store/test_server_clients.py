"""The embedded store through ClickHouse's own Python client, as it is used against any server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import clickhouse_connect
import numpy as np
import pyarrow as pa
import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError

from holter.pipeline.store.client import connect
from holter.pipeline.store.dsn import Dsn
from holter.pipeline.store.errors import QueryRefused, StoreUnavailable
from tests.store.embedded import EmbeddedStore

pytestmark = pytest.mark.services


@pytest.fixture(params=[False, "lz4", "zstd", "gzip"])
def client(store: EmbeddedStore, request: pytest.FixtureRequest) -> Iterator[Any]:
    made = _client(store.dsn, request.param)
    made.command("CREATE OR REPLACE TABLE t (a UInt64, s String, f Float64) ENGINE = MergeTree ORDER BY a")
    yield made
    made.close()


def test_rows_sent_are_rows_written_are_rows_stored(client: Any) -> None:
    rows = [[number, "x" * 100, float(number)] for number in range(20_000)]
    assert client.insert("t", rows, column_names=["a", "s", "f"]).written_rows == 20_000
    assert client.query("SELECT count(), sum(a) FROM t").result_rows == [(20_000, sum(range(20_000)))]


def test_arrow_goes_in_and_comes_out_with_non_finite_values(client: Any) -> None:
    values = np.array([1.5, np.nan, np.inf, -np.inf])
    table = pa.table({"a": pa.array(range(4), pa.uint64()), "s": ["", "a'b", "ö", "\t\\N"], "f": values})
    assert client.insert_arrow("t", table).written_rows == 4
    back = client.query_arrow("SELECT * FROM t ORDER BY a", use_strings=True)
    assert back.column("s").to_pylist() == table.column("s").to_pylist()
    np.testing.assert_array_equal(back.column("f").to_numpy(), values)


def test_a_stream_gives_all_its_blocks(client: Any) -> None:
    with client.query_row_block_stream("SELECT number FROM numbers(300000)") as blocks:
        assert sum(len(block) for block in blocks) == 300_000


def test_an_error_in_the_middle_of_a_stream_reaches_the_reader(client: Any) -> None:
    sql = "SELECT throwIf(number = 250000) FROM numbers(400000)"
    with pytest.raises(ClickHouseError, match="395"), client.query_row_block_stream(sql) as blocks:
        for _ in blocks:
            pass


def test_parameters_are_bound_by_the_server(client: Any) -> None:
    parameters = {"s": "it's\t\\ö\n", "list": [1, 2], "none": None}
    sql = "SELECT {s:String}, {list:Array(Int32)}, {none:Nullable(String)}"
    assert client.query(sql, parameters=parameters).result_rows == [("it's\t\\ö\n", [1, 2], None)]


def test_data_frames(client: Any) -> None:
    client.command("INSERT INTO t VALUES (1, 'a', 0.5), (2, upper('b'), nan)")
    frame = client.query_df("SELECT * FROM t ORDER BY a")
    assert frame["s"].tolist() == ["a", "B"]
    assert np.isnan(frame["f"][1])


def test_commands_answer_with_their_value(client: Any) -> None:
    assert client.command("SELECT 1") == 1
    assert client.command("EXISTS t") == 1
    assert client.query("SELECT a FROM t LIMIT 0").column_names == ("a",)
    assert client.ping()


def test_a_session_keeps_its_settings_and_a_query_its_own(store: EmbeddedStore) -> None:
    client = clickhouse_connect.get_client(**_arguments(store.dsn), session_id="settings")
    client.command("SET max_block_size = 1234")
    client.command("CREATE TEMPORARY TABLE kept (a Int8)")
    value = "SELECT value FROM system.settings WHERE name = 'max_block_size'"
    assert client.query(value, settings={"max_block_size": 99}).result_rows == [("99",)]
    assert client.query(value).result_rows == [("1234",)]
    assert client.command("SELECT count() FROM kept") == 0


def test_threads_share_a_client(store: EmbeddedStore) -> None:
    client = connect(store.dsn)
    totals: list[int] = []

    def ask(limit: int) -> None:
        totals.append(client.query(f"SELECT sum(number) FROM numbers({limit})").result_rows[0][0])

    threads = [threading.Thread(target=ask, args=(limit,)) for limit in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(totals) == [sum(range(limit)) for limit in range(1, 9)]


def test_the_async_client(store: EmbeddedStore) -> None:
    pytest.importorskip("aiohttp")

    async def ask() -> list[Any]:
        client = await clickhouse_connect.get_async_client(**_arguments(store.dsn))
        answers = await asyncio.gather(*(client.query(f"SELECT {number}") for number in range(5)))
        await client.close()
        return [answer.result_rows[0][0] for answer in answers]

    assert asyncio.run(ask()) == list(range(5))


def test_a_wrong_password_is_refused_for_good(store: EmbeddedStore) -> None:
    with pytest.raises(QueryRefused) as refused:
        connect(Dsn(store.dsn.host, store.dsn.port, store.dsn.user, "wrong"))
    assert refused.value.code == 516


def test_a_store_that_is_not_there_can_be_tried_again() -> None:
    with pytest.raises(StoreUnavailable):
        connect(Dsn("127.0.0.1", 9, "me", "secret"))


def _client(dsn: Dsn, compress: bool | str) -> Any:
    return clickhouse_connect.get_client(**_arguments(dsn), compress=compress, autogenerate_session_id=False)


def _arguments(dsn: Dsn) -> dict[str, Any]:
    return {
        "host": dsn.host, "port": dsn.port, "username": dsn.user, "password": dsn.password, "database": dsn.database,
    }  # fmt: skip
