from __future__ import annotations

import base64
import io
from email.message import Message

import lz4.frame
import pytest

from holter.pipeline.store.errors import QueryRefused
from holter.pipeline.store.http_request import Request, read_body, read_request


def request(target: str, body: bytes = b"", **headers: str) -> Request:
    message = Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return read_request("POST", target, message, body)  # type: ignore[arg-type]


def test_the_query_of_the_url_goes_before_the_body() -> None:
    assert request("/?query=INSERT+INTO+t+FORMAT+CSV", b"1").sql == b"INSERT INTO t FORMAT CSV\n1"
    assert request("/?query=SELECT+1").sql == b"SELECT 1"
    assert request("/", b"SELECT 1").sql == b"SELECT 1"


def test_settings_and_query_parameters_are_told_apart() -> None:
    found = request("/?query=x&database=d&max_threads=1&param_a=2&session_id=s&wait_end_of_query=1")
    assert found.settings == {"max_threads": "1"}
    assert found.query_parameters == {"param_a": "2"}
    assert (found.database, found.may_stream) == ("d", False)


@pytest.mark.parametrize("name", ["a b", "a=1,b", "1a", "a'"])
def test_a_setting_must_be_an_identifier(name: str) -> None:
    with pytest.raises(QueryRefused):
        _ = Request("POST", "/", {name: "1"}, {}).settings
    with pytest.raises(QueryRefused):
        _ = Request("POST", "/", {f"param_{name}'": "1"}, {}).query_parameters


def test_a_login_comes_by_basic_headers_or_url() -> None:
    basic = base64.b64encode("me:päss:word".encode()).decode()
    assert request("/", Authorization=f"Basic {basic}").login == ("me", "päss:word")
    assert request("/", X_ClickHouse_User="me", X_ClickHouse_Key="k").login == ("me", "k")
    assert request("/?user=me&password=k").login == ("me", "k")
    assert request("/", Authorization="Basic ???").login == ("", "")
    assert request("/").login == ("", "")


def test_a_form_gives_its_fields() -> None:
    body = (
        b'--B\r\nContent-Disposition: form-data; name="query"\r\n\r\nSELECT {a:String}\r\n'
        b'--B\r\nContent-Disposition: form-data; name="param_a"\r\n\r\nx\r\n--B--\r\n'
    )
    found = request("/", body, Content_Type="multipart/form-data; boundary=B")
    assert (found.sql, found.query_parameters) == (b"SELECT {a:String}", {"param_a": "x"})


def test_a_compressed_body_is_plain() -> None:
    assert request("/", lz4.frame.compress(b"SELECT 1"), Content_Encoding="lz4").sql == b"SELECT 1"


def test_clickhouses_own_compression_is_refused_by_name() -> None:
    with pytest.raises(QueryRefused) as refused:
        request("/?decompress=1")
    assert refused.value.code == 344


def test_a_body_is_read_by_length_or_in_chunks() -> None:
    assert read_body(io.BytesIO(b"abcdef"), {"Content-Length": "3"}) == b"abc"
    chunked = {"Transfer-Encoding": "chunked"}
    assert read_body(io.BytesIO(b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n"), chunked) == b"abcde"
    assert read_body(io.BytesIO(b""), {}) == b""


@pytest.mark.parametrize("raw", [b"", b"3\r\nab", b"3\r\nabc\r\n", b"zz\r\n"])
def test_a_chunked_body_that_ends_too_early_is_refused(raw: bytes) -> None:
    with pytest.raises(QueryRefused):
        read_body(io.BytesIO(raw), {"Transfer-Encoding": "chunked"})


def test_a_body_shorter_than_its_length_is_refused() -> None:
    with pytest.raises(QueryRefused) as refused:
        read_body(io.BytesIO(b"ab"), {"Content-Length": "3"})
    assert refused.value.code == 33
