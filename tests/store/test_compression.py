from __future__ import annotations

import gzip
import zlib

import lz4.frame
import pytest
from backports import zstd

from holter.pipeline.store.compression import ENCODINGS, choose_encoding, compressor, decompress
from holter.pipeline.store.errors import QueryRefused

PACK = {
    "lz4": lz4.frame.compress,
    "zstd": zstd.compress,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
}
LIMIT = 1 << 20


@pytest.mark.parametrize("encoding", PACK)
def test_every_frame_of_a_body_is_read(encoding: str) -> None:
    body = b"".join(PACK[encoding](part) for part in (b"one", b"", b"two", b"three" * 1000))
    assert decompress(body, encoding, LIMIT) == b"onetwo" + b"three" * 1000


@pytest.mark.parametrize("encoding", PACK)
def test_a_cut_body_is_refused(encoding: str) -> None:
    body = PACK[encoding](b"one") + PACK[encoding](b"two" * 100)[:-5]
    with pytest.raises(QueryRefused) as refused:
        decompress(body, encoding, LIMIT)
    assert refused.value.code == 271


@pytest.mark.parametrize("encoding", PACK)
def test_a_body_over_the_limit_is_refused(encoding: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        decompress(PACK[encoding](b"x" * 101), encoding, 100)
    assert refused.value.code == 307


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(QueryRefused):
        decompress(b"", "br", LIMIT)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_answers_in_pieces_can_be_read_back(encoding: str) -> None:
    stream = compressor(encoding)
    packed = stream.compress(b"a" * 1000) + stream.compress(b"b") + stream.flush()
    assert decompress(packed, encoding, LIMIT) == b"a" * 1000 + b"b"


@pytest.mark.parametrize(
    ("accepted", "chosen"), [("", None), ("identity", None), ("br, gzip", "gzip"), ("lz4;q=0, zstd", "zstd")]
)
def test_the_encoding_is_one_that_the_client_accepts(accepted: str, chosen: str | None) -> None:
    assert choose_encoding(accepted) == chosen
