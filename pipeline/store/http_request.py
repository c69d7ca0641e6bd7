"""An HTTP request as ClickHouse's clients send it: who asks, the statement, its data, parameters and settings."""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import BinaryIO
from urllib.parse import parse_qsl, urlsplit

from holter.pipeline.store.compression import TOO_LARGE, decompress
from holter.pipeline.store.errors import QueryRefused

BAD_ARGUMENTS = 36
CANNOT_READ_ALL_DATA = 33
SUPPORT_IS_DISABLED = 344
UNKNOWN_SETTING = 115
MAX_BODY_BYTES = 512 * 1024 * 1024

_TRANSPORT_NAMES = frozenset(
    {
        "buffer_size", "client_protocol_version", "compress", "database", "decompress", "default_format",
        "enable_http_compression", "http_headers_progress_interval_ms", "password", "query", "query_id", "quota_key",
        "role", "send_progress_in_http_headers", "session_check", "session_id", "session_timeout", "stacktrace",
        "user", "wait_end_of_query", "cancel_http_readonly_queries_on_client_close", "async_insert",
        "wait_for_async_insert",
    }
)  # fmt: skip
_SETTING_NAME = re.compile(r"\A[A-Za-z_]\w*\Z", re.ASCII)


@dataclass(frozen=True)
class Request:
    """One request, decoded. ``params`` are those of the URL and, of a form, its fields."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)

    @property
    def sql(self) -> bytes:
        """The ``query`` parameter, then the body: the data of an INSERT may come in either."""
        query = self.params.get("query", "").encode()
        return query + b"\n" + self.body if query and self.body else query or self.body

    @property
    def query_id(self) -> str:
        return self.params.get("query_id") or self.headers.get("X-ClickHouse-Query-Id") or str(uuid.uuid4())

    @property
    def database(self) -> str:
        return self.params.get("database") or self.headers.get("X-ClickHouse-Database") or ""

    @property
    def default_format(self) -> str:
        return self.params.get("default_format") or self.headers.get("X-ClickHouse-Format") or "TabSeparated"

    @property
    def accepts(self) -> str:
        """The encodings that the client asks for; compression must also be switched on, as in ClickHouse."""
        is_on = self.params.get("enable_http_compression", "0") in ("1", "true")
        return self.headers.get("Accept-Encoding", "") if is_on else ""

    @property
    def may_stream(self) -> bool:
        return self.params.get("wait_end_of_query", "0") not in ("1", "true")

    @property
    def settings(self) -> dict[str, str]:
        """What is neither of the transport nor a query parameter.

        Raises:
            QueryRefused: a name is no identifier.
        """
        settings = {}
        for name, value in self.params.items():
            if name in _TRANSPORT_NAMES or name.startswith("param_"):
                continue
            if not _SETTING_NAME.match(name):
                raise QueryRefused(f"{name[:100]!r} is no name of a setting", UNKNOWN_SETTING)
            settings[name] = value
        return settings

    @property
    def query_parameters(self) -> dict[str, str]:
        """The values of ``{name:Type}`` placeholders, by ``param_name``.

        Raises:
            QueryRefused: a name is no identifier.
        """
        found = {name: value for name, value in self.params.items() if name.startswith("param_")}
        for name in found:
            if not _SETTING_NAME.match(name):
                raise QueryRefused(f"{name[:100]!r} is no name of a parameter", BAD_ARGUMENTS)
        return found

    @property
    def login(self) -> tuple[str, str]:
        """User and password from the headers or the URL, empty where there are none."""
        kind, _, encoded = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "basic":
            return _basic(encoded)
        user = self.headers.get("X-ClickHouse-User") or self.params.get("user", "")
        return user, self.headers.get("X-ClickHouse-Key") or self.params.get("password", "")


def read_request(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
    """Raises:
    QueryRefused: the body is compressed in a way that is not known here, or is no form that it says to be.
    """
    parts = urlsplit(target)
    params = dict(parse_qsl(parts.query, keep_blank_values=True))
    if params.get("decompress", "0") == "1" or params.get("compress", "0") == "1":
        raise QueryRefused("compress=1 and decompress=1 are not served here: use HTTP compression", SUPPORT_IS_DISABLED)
    body = decompress(body, headers.get("Content-Encoding", "").strip().lower(), MAX_BODY_BYTES)
    if headers.get("Content-Type", "").lower().startswith("multipart/form-data"):
        params |= _form_fields(headers["Content-Type"], body)
        body = b""
    return Request(method, parts.path, params, headers, body)


def read_body(source: BinaryIO, headers: Mapping[str, str]) -> bytes:
    """The whole body as sent, by length or in chunks.

    Raises:
        QueryRefused: it ends too early or is too large; the connection cannot be used further.
    """
    if "chunked" in headers.get("Transfer-Encoding", "").lower():
        return _read_chunks(source)
    length = headers.get("Content-Length", "0")
    if not length.isdecimal():
        raise QueryRefused(f"Content-Length {length!r} is no number", BAD_ARGUMENTS)
    return _read_exactly(source, int(length))


def _read_chunks(source: BinaryIO) -> bytes:
    parts: list[bytes] = []
    total = 0
    while True:
        size_text = source.readline(1024).split(b";")[0].strip()
        try:
            size = int(size_text, 16)
        except ValueError:
            raise QueryRefused("the chunked body ends too early", CANNOT_READ_ALL_DATA) from None
        if size == 0:
            while source.readline(65536).strip():  # trailers
                pass
            return b"".join(parts)
        total += size
        parts.append(_read_exactly(source, size, total))
        source.readline(1024)


def _read_exactly(source: BinaryIO, size: int, total: int = 0) -> bytes:
    if max(size, total) > MAX_BODY_BYTES:
        raise QueryRefused(f"the body is over {MAX_BODY_BYTES} bytes: send smaller batches", TOO_LARGE)
    data = source.read(size)
    if len(data) != size:
        raise QueryRefused(f"the body has {len(data)} bytes of {size}", CANNOT_READ_ALL_DATA)
    return data


def _basic(encoded: str) -> tuple[str, str]:
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


def _form_fields(content_type: str, body: bytes) -> dict[str, str]:
    message = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    if not message.is_multipart():
        raise QueryRefused("the form cannot be read", BAD_ARGUMENTS)
    fields: dict[str, str] = {}
    for part in message.iter_parts():
        if part.get_filename() is not None:
            raise QueryRefused("external data is not served by the embedded store", SUPPORT_IS_DISABLED)
        name = part.get_param("name", header="content-disposition")
        fields[str(name)] = bytes(part.get_payload(decode=True) or b"").decode("utf-8", "replace")
    return fields
