"""Answers as ClickHouse gives them over HTTP: its headers, its status codes, its errors in the middle of a stream."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

from holter.pipeline.store.compression import choose_encoding, compressor
from holter.pipeline.store.engine import Answer
from holter.pipeline.store.errors import StoreError

TAG_LENGTH = 16
DISPLAY_NAME = "holter"
_STATUS_BY_CODE = {
    **dict.fromkeys((6, 26, 27, 33, 36, 38, 41, 53, 62, 69, 72, 89, 117, 271, 321, 344), 400),
    **dict.fromkeys((192, 193, 497, 512, 516), 403),
    **dict.fromkeys((46, 47, 50, 56, 60, 63, 73, 81, 115, 372), 404),
    **dict.fromkeys((202, 210), 503),
    159: 408,
    194: 401,
    307: 413,
    48: 501,
}


class AnswerWriter:
    """Writes one answer. After an error in the middle of a stream the connection is closed without its last chunk."""

    def __init__(self, handler: BaseHTTPRequestHandler, query_id: str = "", timezone: str = "") -> None:
        self._handler = handler
        self._query_id = query_id
        self._timezone = timezone

    def whole(self, answer: Answer, output_format: str | None, accepts: str) -> None:
        body = answer.body
        self._start(200, output_format, answer)
        encoding = choose_encoding(accepts) if body else None
        if encoding:
            stream = compressor(encoding)
            body = stream.compress(body) + stream.flush()
            self._handler.send_header("Content-Encoding", encoding)
        self._finish(body)

    def plain(self, text: str) -> None:
        """A fixed word without the headers of a query."""
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", "text/html; charset=UTF-8")
        self._finish(text.encode())

    def error(self, error: StoreError) -> None:
        code = error.code or 1002
        self._start(_STATUS_BY_CODE.get(code, 500), None, Answer())
        self._handler.send_header("X-ClickHouse-Exception-Code", str(code))
        if code == 194:
            self._handler.send_header("WWW-Authenticate", 'Basic realm="ClickHouse server HTTP API"')
        self._finish((error_text(error) + "\n").encode())

    def stream(self, pieces: Iterator[bytes], output_format: str, accepts: str) -> None:
        """Sends pieces as they come; an error before the first one is raised, a later one is sent in the stream."""
        first = next(pieces, b"")
        tag = "".join(secrets.choice(string.ascii_lowercase) for _ in range(TAG_LENGTH))
        self._start(200, output_format, Answer())
        self._handler.send_header("X-ClickHouse-Exception-Tag", tag)
        self._handler.send_header("Transfer-Encoding", "chunked")
        encoding = choose_encoding(accepts)
        if encoding:
            self._handler.send_header("Content-Encoding", encoding)
        self._handler.end_headers()
        self._send_pieces(first, pieces, encoding, tag)

    def _send_pieces(self, first: bytes, pieces: Iterator[bytes], encoding: str | None, tag: str) -> None:
        stream = compressor(encoding) if encoding else None
        failure = b""
        piece: bytes | None = first
        while piece is not None:
            self._chunk(stream.compress(piece) if stream else piece)
            try:
                piece = next(pieces, None)
            except StoreError as error:
                failure, piece = _tagged(error, tag), None
        if failure:
            self._chunk(stream.compress(failure) if stream else failure)
        if stream:
            self._chunk(stream.flush())
        if failure:
            self._handler.close_connection = True
        else:
            self._handler.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        if data:
            self._handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _start(self, status: int, output_format: str | None, answer: Answer) -> None:
        send = self._handler.send_header
        self._handler.send_response(status)
        send("Content-Type", _content_type(output_format))
        send("X-ClickHouse-Server-Display-Name", DISPLAY_NAME)
        send("X-ClickHouse-Query-Id", self._query_id)
        if output_format:
            send("X-ClickHouse-Format", output_format)
        if self._timezone:
            send("X-ClickHouse-Timezone", self._timezone)
        send("X-ClickHouse-Summary", json.dumps(_summary(answer), separators=(",", ":")))

    def _finish(self, body: bytes) -> None:
        self._handler.send_header("Content-Length", str(len(body)))
        self._handler.end_headers()
        self._handler.wfile.write(body)


def error_text(error: StoreError) -> str:
    text = str(error)
    return text if text.startswith("Code: ") else f"Code: {error.code or 1002}. DB::Exception: {text}."


def _tagged(error: StoreError, tag: str) -> bytes:
    """The block that tells a client that what came before is not the whole."""
    message = error_text(error).encode()
    return b"__exception__\r\n%b\r\n%b\n%d %b\r\n__exception__\r\n" % (
        tag.encode(), message, len(message) + 1, tag.encode(),
    )  # fmt: skip


def _summary(answer: Answer) -> dict[str, str]:
    return {
        "read_rows": str(answer.read_rows),
        "read_bytes": str(answer.read_bytes),
        "written_rows": str(answer.written_rows),
        "written_bytes": str(answer.written_bytes),
        "total_rows_to_read": "0",
        "result_rows": str(answer.result_rows),
        "result_bytes": str(len(answer.body)),
        "elapsed_ns": str(int(answer.elapsed_seconds * 1e9)),
    }


def _content_type(output_format: str | None) -> str:
    if output_format is None or output_format.startswith(("TabSeparated", "TSV")):
        return "text/tab-separated-values; charset=UTF-8"
    if output_format.startswith("CSV"):
        return "text/csv; charset=UTF-8; header=absent"
    if output_format.startswith("JSON"):
        return "application/json; charset=UTF-8"
    return "application/octet-stream"
